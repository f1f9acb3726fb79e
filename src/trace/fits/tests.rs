use super::*;
use approx::assert_relative_eq;

fn ended(ended_s: Vec<f64>) -> Durations {
    Durations { ended_s, ..Durations::default() }
}

/// Evenly spaced quantiles of a law.
fn quantiles(count: u32, quantile: impl Fn(f64) -> f64) -> Vec<f64> {
    (0..count).map(|place| quantile((f64::from(place) + 0.5) / f64::from(count))).collect()
}

#[test]
fn the_exponential_mean_is_all_time_over_all_ends() {
    let durations = Durations { ended_s: vec![10.0, 20.0, 30.0], censored_s: vec![40.0, 50.0], zeros: 0 };
    let fits = Fit::all(&durations);
    let Law::Exponential { mean_s } = fits[0].law else { panic!("{fits:?}") };
    assert_relative_eq!(mean_s, 50.0);
    // ln L = -3 ln 50 - 150 / 50.
    assert_relative_eq!(fits[0].log_likelihood, -3.0 * 50_f64.ln() - 3.0, max_relative = 1e-12);
    assert_relative_eq!(fits[0].aic, 2.0 - 2.0 * fits[0].log_likelihood);
}

#[test]
fn weibull_finds_the_law_that_made_the_data() {
    let data = quantiles(4000, |p| 3600.0 * (-(1.0 - p).ln()).powf(1.0 / 0.66));
    let Some(Law::Weibull { shape, scale_s }) = weibull(&ended(data.clone())) else { panic!() };
    assert_relative_eq!(shape, 0.66, max_relative = 5e-3);
    assert_relative_eq!(scale_s, 3600.0, max_relative = 5e-3);
    // Cut off at 3600 s, of which exp(-1) last longer.
    let (kept, cut): (Vec<f64>, Vec<f64>) = data.into_iter().partition(|t_s| *t_s < 3600.0);
    let durations = Durations { ended_s: kept, censored_s: vec![3600.0; cut.len()], zeros: 0 };
    let Some(Law::Weibull { shape, scale_s }) = weibull(&durations) else { panic!() };
    assert_relative_eq!(shape, 0.66, max_relative = 1e-2);
    assert_relative_eq!(scale_s, 3600.0, max_relative = 1e-2);
}

#[test]
fn lognormal_is_mean_and_deviation_of_the_logarithms_and_survives_a_cut() {
    // Logarithms 1, 2, 3: mean 2, variance 2 / 3.
    let data: Vec<f64> = [1.0_f64, 2.0, 3.0].map(f64::exp).into();
    let Some(Law::Lognormal { median_s, sigma }) = lognormal(&ended(data)) else { panic!() };
    assert_relative_eq!(median_s, 2_f64.exp(), max_relative = 1e-9);
    assert_relative_eq!(sigma, (2.0_f64 / 3.0).sqrt(), max_relative = 1e-9);
    // Normal quantiles by bisection of the survival.
    let quantile = |p: f64| {
        let (mut low, mut high) = (-9.0, 9.0);
        for _ in 0..80 {
            let middle = f64::midpoint(low, high);
            if 1.0 - normal::log_survival(middle).exp() < p { low = middle } else { high = middle }
        }
        (8.0 + 1.3 * low).exp()
    };
    let (kept, cut): (Vec<f64>, Vec<f64>) = quantiles(4000, quantile).into_iter().partition(|t_s| *t_s < 6000.0);
    let durations = Durations { ended_s: kept, censored_s: vec![6000.0; cut.len()], zeros: 0 };
    let Some(Law::Lognormal { median_s, sigma }) = lognormal(&durations) else { panic!() };
    assert_relative_eq!(median_s, 8_f64.exp(), max_relative = 1e-2);
    assert_relative_eq!(sigma, 1.3, max_relative = 1e-2);
}

#[test]
fn no_law_nearby_is_likelier() {
    let durations = Durations {
        ended_s: vec![60.0, 75.0, 300.0, 1000.0, 1010.0, 5000.0, 20_000.0],
        censored_s: vec![100.0, 3000.0, 40_000.0],
        zeros: 0,
    };
    let fits = Fit::all(&durations);
    assert_eq!(fits.len(), 3);
    for fit in &fits {
        for factor in [0.98, 0.999, 1.001, 1.02] {
            let nearby = match fit.law {
                Law::Exponential { mean_s } => vec![Law::Exponential { mean_s: mean_s * factor }],
                Law::Weibull { shape, scale_s } => vec![
                    Law::Weibull { shape: shape * factor, scale_s },
                    Law::Weibull { shape, scale_s: scale_s * factor },
                ],
                Law::Lognormal { median_s, sigma } => vec![
                    Law::Lognormal { median_s: median_s * factor, sigma },
                    Law::Lognormal { median_s, sigma: sigma * factor },
                ],
            };
            assert!(nearby.iter().all(|law| law.log_likelihood(&durations) < fit.log_likelihood), "{:?}", fit.law);
        }
    }
    assert_eq!(
        Fit::best(&fits).unwrap().aic.to_bits(),
        fits.iter().map(|fit| fit.aic).fold(f64::MAX, f64::min).to_bits()
    );
}

#[test]
fn too_few_or_all_alike_have_no_fit_or_the_exponential_only() {
    assert!(Fit::all(&ended(vec![1.0, 2.0])).is_empty());
    let alike = Fit::all(&ended(vec![60.0; 5]));
    assert_eq!(alike.iter().map(|fit| fit.law.name()).collect::<Vec<_>>(), ["exponential"]);
}
