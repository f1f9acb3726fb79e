//! Whether the solver that is linked works.

use super::{Retcode, ScipError, ScipLimits, empty_model};
use russcip::prelude::*;

/// Solves `max 3x + 2y, 2x + y ≤ 4, x + 3y ≤ 9` over whole numbers, whose best is 7 at (1, 2), and
/// says which SCIP's bindings it has done that with.
///
/// # Errors
/// What went wrong, for people.
pub fn self_test() -> Result<String, String> {
    let failed = |error: ScipError| error.to_string();
    let mut model = empty_model(&ScipLimits::default(), false).map_err(failed)?;
    // SCIP minimises.
    let x = model.add(var().name("x").int(0..=9).obj(-3.0));
    let y = model.add(var().name("y").int(0..=9).obj(-2.0));
    model.add(cons().name("a").expr([(&x, 2.0), (&y, 1.0)]).le(4.0));
    model.add(cons().name("b").expr([(&x, 1.0), (&y, 3.0)]).le(9.0));
    let solved = model.solve();
    let value = solved.best_sol().map(|solution| solution.obj_val());
    let (major, minor) = (scip_sys::SCIP_VERSION_MAJOR, scip_sys::SCIP_VERSION_MINOR);
    match value {
        Some(value) if (value + 7.0).abs() < 1e-6 => Ok(format!("{major}.{minor}")),
        Some(value) => Err(format!("solved a program of two variables wrong: {value}")),
        None => Err(ScipError::Solver(Retcode::Error).to_string()),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_solver_solves() {
        assert_eq!(super::self_test().as_deref(), Ok("10.0"));
    }
}
