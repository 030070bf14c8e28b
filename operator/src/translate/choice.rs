//! Takes the allocator that a policy chose and its class, gives the first thing in it that cannot be done: what the class
//! does not allow, what its build would not take as written, what would change nothing. Never looks at a workload.

use std::collections::BTreeMap;

use heapfleet_core::decision::Reason;
use heapfleet_core::inject::{Build, check_options};
use heapfleet_core::world::Refusal;
use heapfleet_crds as crds;

use super::thaw::{allocator_name, arch_name};
use super::values::invalid;

/// Whether the class allows what the policy chose, its build takes it, and something would be changed by it.
pub(super) fn check_choice(
    spec: &crds::AllocatorPolicySpec,
    class: &crds::AllocatorClassSpec,
) -> Result<(), Refusal> {
    let choice = &spec.allocator;
    let refuse = |reason, message| Err(Refusal { reason, message });
    let name = &choice.class;
    if let Some((key, value)) = choice.options.iter().find(|(key, _)| {
        !class
            .options
            .allowed
            .iter()
            .any(|allowed| allowed == key.as_str())
    }) {
        let allowed = list(class.options.allowed.iter().map(crds::OptionName::as_str));
        return refuse(
            Reason::OptionNotAllowed,
            format!(
                "spec.allocator.options: {key}={value} is not allowed by class {name}, which allows {allowed}; remove it, or have it added to the class."
            ),
        );
    }
    if let Some(variable) = choice
        .env
        .iter()
        .find(|variable| !class.allowed_env.contains(&variable.name))
    {
        let allowed = list(class.allowed_env.iter().map(crds::VariableName::as_str));
        return refuse(
            Reason::EnvNotAllowed,
            format!(
                "spec.allocator.env: {} is not allowed by class {name}, which allows {allowed}; remove it, or have it added to the class.",
                variable.name
            ),
        );
    }
    check_values(choice, class)?;
    check_path(choice, class)?;
    let loads = class.delivery == crds::Delivery::Preload || !spec.images.is_empty();
    let sets =
        !class.options.defaults.is_empty() || !choice.options.is_empty() || !choice.env.is_empty();
    if loads || sets {
        return Ok(());
    }
    Err(invalid(format!(
        "spec.allocator: class {name} has delivery {:?} and there is neither an option nor a variable to set, so that nothing would be changed; add options or env.",
        class.delivery
    )))
}

/// Words in the folders of a multiarch system that name a processor.
const ARCH_WORDS: [(&str, crds::Arch); 4] = [
    ("x86_64", crds::Arch::Amd64),
    ("amd64", crds::Arch::Amd64),
    ("aarch64", crds::Arch::Arm64),
    ("arm64", crds::Arch::Arm64),
];

/// A path that names one processor is missing on another, where the loader goes on without it.
fn check_path(
    choice: &crds::AllocatorChoice,
    class: &crds::AllocatorClassSpec,
) -> Result<(), Refusal> {
    let Some(path) = class.preload.as_ref().map(|preload| &preload.library.path) else {
        return Ok(());
    };
    let named = ARCH_WORDS.iter().find(|(word, _)| path.contains(word));
    let Some((word, arch)) = named else {
        return Ok(());
    };
    match class
        .platforms
        .iter()
        .find(|platform| platform.arch != *arch)
    {
        None => Ok(()),
        Some(other) => Err(invalid(format!(
            "spec.allocator.class: the library of class {} is {path}, which names {word}, but its platforms list {} too; have the class split by processor, or its path be the file name alone.",
            choice.class,
            arch_name(other.arch)
        ))),
    }
}

/// Options reach an allocator that passes over mistakes in silence, so that none is let through which the build would not
/// take exactly as it is written. The class's own defaults are checked too, and named as such.
fn check_values(
    choice: &crds::AllocatorChoice,
    class: &crds::AllocatorClassSpec,
) -> Result<(), Refusal> {
    let build = Build {
        allocator: allocator_name(class.allocator),
        version: &class.version,
        prof: class.build.prof,
        stats: class.build.stats,
    };
    let name = &choice.class;
    let text = |options: &BTreeMap<String, crds::OptionValue>| -> BTreeMap<String, String> {
        options
            .iter()
            .map(|(key, value)| (key.clone(), value.to_string()))
            .collect()
    };
    let fields = [
        (
            format!("class {name}: spec.options.defaults"),
            text(&class.options.defaults),
        ),
        ("spec.allocator.options".to_owned(), text(&choice.options)),
    ];
    for (field, options) in fields {
        check_options(&build, &options).map_err(|bad| Refusal {
            reason: Reason::OptionNotAllowed,
            message: format!("{field}: {}={}: {}.", bad.key, bad.value, bad.because),
        })?;
    }
    Ok(())
}

fn list<'a>(items: impl Iterator<Item = &'a str>) -> String {
    let items: Vec<&str> = items.collect();
    if items.is_empty() {
        "none".to_owned()
    } else {
        items.join(", ")
    }
}
