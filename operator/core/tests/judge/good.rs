//! A look that passes, and how a look is said: where a case begins.

use heapfleet_core::judge::{Look, LookInput, Settings, look};

use crate::world::World;

/// A look from nothing but the input.
pub(crate) fn judge(settings: &Settings, input: &LookInput) -> Look {
    look(settings, None, input)
}

/// Verdict and reason, as `Pass(NonInferior)`.
pub(crate) fn said(look: &Look) -> String {
    format!("{}({})", look.verdict, look.reason)
}

/// A gain of a third that passes.
pub(crate) fn good() -> (World, Settings, LookInput) {
    let world = World {
        effect: -0.4,
        ..World::default()
    };
    let (settings, input) = (world.settings(), world.input());
    assert_eq!(said(&judge(&settings, &input)), "Pass(NonInferior)");
    (world, settings, input)
}
