//! One sentence about a look, for people: rounded numbers, no pod names. Must never be read back by a machine.

use super::outcome::{Code, Look, Numbers, Verdict};

/// A change as people say it: `-54 %`, `+2.1 %`.
fn percent(log: f64) -> String {
    let value = 100.0 * log.exp_m1();
    if value.abs() >= 10.0 {
        format!("{value:+.0} %")
    } else {
        format!("{value:+.1} %")
    }
}

impl Look {
    /// The verdict and its reason in one sentence.
    pub fn sentence(&self) -> String {
        let ratio = self.numbers.first().filter(|n| n.blocks > 0);
        let measured = ratio.map_or_else(String::new, |n| {
            // The peak is a price that people want to see even where they accept it.
            let about = self.reason.about.as_deref();
            let others = self.numbers.iter().skip(1).filter(|n| n.blocks > 0);
            let shown = others.filter(|n| n.metric == "peak" || Some(n.metric.as_str()) == about);
            let mut text = format!(
                "; the ratio changed by {} over {} blocks",
                percent(n.theta),
                n.blocks
            );
            for n in shown {
                text.push_str(", ");
                text.push_str(&n.metric);
                text.push_str(" by ");
                text.push_str(&percent(n.theta));
            }
            text
        });
        let about = |text: &str| match &self.reason.about {
            Some(about) => format!("{text} ({about})"),
            None => text.to_owned(),
        };
        let because = about(self.reason.code.meaning());
        let missing = self
            .missing()
            .map_or_else(String::new, |m| format!("; {m}"));
        match self.verdict {
            Verdict::Pass => format!("Passed: {because}{measured}."),
            Verdict::Fail => format!("Failed: {because}{measured}."),
            Verdict::Inconclusive => format!("No decision yet: {because}{measured}{missing}."),
            Verdict::InsufficientData => format!("No statement possible: {because}{measured}."),
        }
    }

    /// The number that is missing for a Pass.
    fn missing(&self) -> Option<String> {
        let of = |name: Option<&str>| -> Option<&Numbers> {
            self.numbers
                .iter()
                .find(|n| name.is_none_or(|name| n.metric == name))
        };
        let code = self.reason.code;
        if code == Code::Underpowered {
            let n = of(self.reason.about.as_deref())?;
            return Some(format!(
                "the evidence is {:.1} of {:.1}",
                n.b_n, n.b_n_needed
            ));
        }
        let n = of(None).filter(|n| code == Code::NoGain && n.blocks > 0)?;
        let (low, high) = (percent(n.lower), percent(n.upper));
        Some(format!("the change lies between {low} and {high}"))
    }
}
