//! Takes names of kinds, prints their custom resource definitions as one YAML stream. Works anywhere: no cluster, no root.

use std::io::Write as _;

use heapfleet_crds::{all, to_yaml};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;

/// Which definitions to print.
#[derive(Clone, Debug, clap::Args)]
pub struct CrdsArgs {
    /// Print only this kind, by kind, plural, singular or short name; may be repeated. Default: all.
    #[arg(long)]
    pub kind: Vec<String>,
}

/// Prints the definitions on standard output.
pub(super) fn print(args: &CrdsArgs) -> anyhow::Result<()> {
    let text = render(&args.kind)?;
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        // Whoever reads may have seen enough: `heapfleet crds | head`.
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        other => Ok(other?),
    }
}

fn render(kinds: &[String]) -> anyhow::Result<String> {
    let definitions: Vec<CustomResourceDefinition> = all()
        .into_iter()
        .map(|(_, definition)| definition)
        .collect();
    if let Some(unknown) = kinds
        .iter()
        .find(|kind| !definitions.iter().any(|definition| is(definition, kind)))
    {
        let known: Vec<&str> = definitions
            .iter()
            .map(|definition| definition.spec.names.kind.as_str())
            .collect();
        anyhow::bail!(
            "--kind {unknown} is not a kind of heapfleet.dev; use one of {}",
            known.join(", ")
        );
    }
    let wanted = |definition: &&CustomResourceDefinition| {
        kinds.is_empty() || kinds.iter().any(|kind| is(definition, kind))
    };
    let mut text = String::new();
    for definition in definitions.iter().filter(wanted) {
        text.push_str("---\n");
        text.push_str(&to_yaml(definition)?);
    }
    Ok(text)
}

fn is(definition: &CustomResourceDefinition, name: &str) -> bool {
    let names = &definition.spec.names;
    let mut all = vec![&names.kind, &names.plural];
    all.extend(&names.singular);
    all.extend(names.short_names.iter().flatten());
    all.into_iter()
        .any(|known| known.eq_ignore_ascii_case(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_found_by_any_of_their_names() {
        let all = render(&[]).unwrap();
        assert_eq!(
            all.matches("\nkind: CustomResourceDefinition\n").count(),
            4,
            "{all}"
        );
        for name in ["AllocatorPolicy", "allocatorpolicies", "apol"] {
            let one = render(&[name.to_owned()]).unwrap();
            assert_eq!(one.matches("---\n").count(), 1, "{name}");
            assert!(one.contains("allocatorpolicies.heapfleet.dev"), "{name}");
        }
        let error = render(&["Pod".to_owned()]).unwrap_err().to_string();
        assert!(error.contains("use one of AllocatorPolicy"), "{error}");
    }
}
