//! Takes names and values, gives the text of a PromQL query. Every value is escaped here and nowhere else; no caller ever
//! joins text to a query.

use std::fmt;
use std::time::Duration;

use heapfleet_core::names::{GENERATED_LETTERS, GENERATED_STEM, Kind, WorkloadId};

use crate::clusters::Refused;

/// A pattern in the syntax of RE2, as Prometheus matches it: against the whole value.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Pattern(String);

impl Pattern {
    /// Exactly this text.
    pub(super) fn literal(text: &str) -> Self {
        let mut out = String::with_capacity(text.len());
        for c in text.chars() {
            if r"\.+*?()|[]{}^$".contains(c) {
                out.push('\\');
            }
            out.push(c);
        }
        Self(out)
    }

    /// The names that the controllers give to a workload's pods, those of the past included.
    /// The same rule as [`WorkloadId::names_pod`].
    pub(super) fn pods_of(id: &WorkloadId) -> Self {
        let name = Self::literal(&id.name).0;
        let safe = format!("[{GENERATED_LETTERS}]");
        Self(match id.kind {
            Kind::Deployment if id.name.len() + 12 <= GENERATED_STEM => {
                format!("{name}-{safe}{{1,10}}-{safe}{{5}}")
            }
            // Name, hash and dashes are cut together, so that only the beginning is certain.
            Kind::Deployment => {
                let stem: String = id.name.chars().take(GENERATED_STEM).collect();
                format!("{}[-a-z0-9]{{0,12}}{safe}{{5}}", Self::literal(&stem).0)
            }
            Kind::StatefulSet => format!("{name}-[0-9]+"),
            Kind::DaemonSet => format!("{name}-{safe}{{5}}"),
        })
    }
}

/// A label's name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Label(String);

impl Label {
    pub(super) fn new(name: &str) -> Result<Self, Refused> {
        let mut bytes = name.bytes();
        let first = bytes
            .next()
            .is_some_and(|b| b.is_ascii_alphabetic() || b == b'_');
        if first && bytes.all(|b| b.is_ascii_alphanumeric() || b == b'_') {
            return Ok(Self(name.to_owned()));
        }
        Err(Refused::new(
            "a matcher's label",
            format!("{name:?}"),
            "it is not the name of a Prometheus label",
            "use letters, digits and '_'",
        ))
    }
}

/// Matchers of one or more selectors.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Matchers(Vec<String>);

impl Matchers {
    /// The label has exactly this value.
    pub(super) fn is(mut self, label: &Label, value: &str) -> Self {
        self.0.push(format!("{}={}", label.0, quoted(value)));
        self
    }

    /// The label matches one of the patterns.
    pub(super) fn like(mut self, label: &Label, patterns: &[Pattern]) -> Self {
        let any: Vec<&str> = patterns.iter().map(|pattern| pattern.0.as_str()).collect();
        self.0
            .push(format!("{}=~{}", label.0, quoted(&any.join("|"))));
        self
    }
}

impl fmt::Display for Matchers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join(","))
    }
}

/// A vector that queries are built of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Query(String);

impl Query {
    /// The series of a metric.
    pub(super) fn select(metric: &str, matchers: &Matchers) -> Self {
        let mut bytes = metric.bytes();
        let first = bytes
            .next()
            .is_some_and(|b| b.is_ascii_alphabetic() || b"_:".contains(&b));
        if first && bytes.all(|b| b.is_ascii_alphanumeric() || b"_:".contains(&b)) {
            return Self(format!("{metric}{{{matchers}}}"));
        }
        // As a matcher, a name can be any text; as a word in front it could not.
        let named = Matchers(vec![format!("__name__={}", quoted(metric))]);
        let all = Matchers(
            named
                .0
                .into_iter()
                .chain(matchers.0.iter().cloned())
                .collect(),
        );
        Self(format!("{{{all}}}"))
    }

    /// A user's own query with its scope filled in; for regions that allow it.
    pub(super) fn raw(text: &str, matchers: &Matchers) -> Self {
        Self(format!(
            "({})",
            text.replace("$matchers", &matchers.to_string())
        ))
    }

    /// Increase per second over `window`, each series for itself.
    pub(super) fn rate(&self, window: Duration) -> Self {
        Self(format!("rate({}[{}])", self.0, span(window)))
    }

    /// Increase per second over `window` of a vector that has no samples of its own, looked at every `step`.
    pub(super) fn rate_of_points(&self, window: Duration, step: Duration) -> Self {
        Self(format!("rate({}[{}:{}])", self.0, span(window), span(step)))
    }

    /// The same with one label's value under another name too.
    pub(super) fn renamed(&self, from: &Label, to: &Label) -> Self {
        Self(format!(
            "label_replace({}, \"{}\", \"$1\", \"{}\", \"(.*)\")",
            self.0, to.0, from.0
        ))
    }

    /// Added up by pod, and by further labels.
    pub(super) fn sum_by(&self, labels: &[&Label]) -> Self {
        let names: Vec<&str> = labels.iter().map(|label| label.0.as_str()).collect();
        Self(format!("sum by ({}) ({})", names.join(","), self.0))
    }

    /// A quantile of what [`Query::sum_by`] with `le` gives.
    pub(super) fn quantile(&self, quantile: f64) -> Self {
        Self(format!("histogram_quantile({quantile}, {})", self.0))
    }

    /// Divided by another vector with the same labels.
    pub(super) fn over(&self, other: &Self) -> Self {
        Self(format!("({}) / ({})", self.0, other.0))
    }

    /// The stored samples of the newest `window`, with their own times.
    pub(super) fn samples(&self, window: Duration) -> String {
        format!("{}[{}]", self.0, span(window))
    }

    /// The values at every multiple of `step` in the newest `window`.
    pub(super) fn points(&self, window: Duration, step: Duration) -> String {
        format!("({})[{}:{}]", self.0, span(window), span(step))
    }
}

/// A PromQL duration; zero is none.
fn span(duration: Duration) -> String {
    format!("{}ms", duration.as_millis().max(1))
}

/// A PromQL string.
fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '\\' => out.push_str(r"\\"),
            '"' => out.push_str("\\\""),
            '\n' => out.push_str(r"\n"),
            '\r' => out.push_str(r"\r"),
            '\t' => out.push_str(r"\t"),
            c if c.is_control() => out.extend(format!("\\U{:08x}", u32::from(c)).chars()),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(kind: Kind, name: &str) -> WorkloadId {
        WorkloadId {
            kind,
            name: name.to_owned(),
        }
    }

    #[test]
    fn values_cannot_leave_their_quotes() {
        let app = Label::new("app").unwrap();
        let matchers = Matchers::default().is(&app, "a\"} or {__name__=~\".*\\\n\u{1}é");
        assert_eq!(
            Query::select("m", &matchers).samples(Duration::from_mins(1)),
            "m{app=\"a\\\"} or {__name__=~\\\".*\\\\\\n\\U00000001é\"}[60000ms]"
        );
        let odd = Query::select("m\"}", &Matchers::default());
        assert_eq!(
            odd.samples(Duration::from_millis(1_500)),
            "{__name__=\"m\\\"}\"}[1500ms]"
        );
    }

    #[test]
    fn label_names_are_checked() {
        for bad in ["", "0a", "a-b", "a.b", "a=\"\"", "é", "a b"] {
            assert!(Label::new(bad).is_err(), "{bad}");
        }
        assert!(Label::new("_topology_k8s_1").is_ok());
    }

    #[test]
    fn patterns_name_the_pods_of_each_kind() {
        let pod = Label::new("pod").unwrap();
        let patterns = [
            Pattern::pods_of(&id(Kind::Deployment, "trace.server")),
            Pattern::pods_of(&id(Kind::StatefulSet, "db")),
            Pattern::pods_of(&id(Kind::DaemonSet, "agent")),
        ];
        assert_eq!(
            Matchers::default().like(&pod, &patterns).to_string(),
            "pod=~\"trace\\\\.server-[bcdfghjklmnpqrstvwxz2456789]{1,10}-[bcdfghjklmnpqrstvwxz2456789]{5}\
             |db-[0-9]+|agent-[bcdfghjklmnpqrstvwxz2456789]{5}\""
        );
    }

    #[test]
    fn pods_of_the_past_are_told_by_their_names() {
        let trace = id(Kind::Deployment, "trace");
        for (pod, yes) in [
            ("trace-6d5c7f8b9d-x7k2p", true),
            ("trace-6d5c7f8b9d-x7k2", false),
            ("trace-server-x7k2p", false),
            ("trace-server-6d5c7f8b9d-x7k2p", false),
            ("xtrace-6d5c7f8b9d-x7k2p", false),
            ("trace-x7k2p", false),
            ("trace-0", false),
        ] {
            assert_eq!(trace.names_pod(pod), yes, "{pod}");
        }
        assert!(id(Kind::StatefulSet, "db").names_pod("db-10"));
        assert!(!id(Kind::StatefulSet, "db").names_pod("db-x"));
        assert!(!id(Kind::StatefulSet, "db").names_pod("db-"));
        assert!(id(Kind::DaemonSet, "agent").names_pod("agent-x7k2p"));
        let long = "a".repeat(60);
        let cut = format!("{}bcdfg", "a".repeat(58));
        assert!(id(Kind::Deployment, &long).names_pod(&cut));
    }

    #[test]
    fn functions_nest() {
        let (pod, le) = (Label::new("pod").unwrap(), Label::new("le").unwrap());
        let block = Duration::from_mins(5);
        let select = |metric| Query::select(metric, &Matchers::default());
        assert_eq!(
            select("d_bucket")
                .rate(block)
                .sum_by(&[&pod, &le])
                .quantile(0.99)
                .points(block * 2, block),
            "(histogram_quantile(0.99, sum by (pod,le) (rate(d_bucket{}[300000ms]))))[600000ms:300000ms]"
        );
        assert_eq!(
            select("a")
                .rate(block)
                .sum_by(&[&pod])
                .over(&select("b").rate(block).sum_by(&[&pod]))
                .points(block, block),
            "((sum by (pod) (rate(a{}[300000ms]))) / (sum by (pod) (rate(b{}[300000ms]))))[300000ms:300000ms]"
        );
        assert_eq!(
            Query::raw(
                "max by (pod) (m{$matchers})",
                &Matchers::default().is(&pod, "a")
            )
            .points(block, block),
            "((max by (pod) (m{pod=\"a\"})))[300000ms:300000ms]"
        );
    }
}
