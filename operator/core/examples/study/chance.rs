//! Deterministic random numbers: xoshiro256++ (Blackman and Vigna, 2019) seeded by splitmix64, normals by the polar
//! method, Poisson counts by multiplication.

/// A stream of numbers.
pub(crate) struct Chance {
    state: [u64; 4],
    spare: Option<f64>,
}

impl Chance {
    /// One stream per cell and repetition.
    pub(crate) fn new(seed: u64, cell: u64, repetition: u64) -> Self {
        let mut z = seed ^ cell.wrapping_mul(0xA076_1D64_78BD_642F) ^ repetition.rotate_left(32);
        let mut next = || {
            z = z.wrapping_add(0x9E37_79B9_7F4A_7C15);
            let mut x = z;
            x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
            x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
            x ^ (x >> 31)
        };
        Self {
            state: [next(), next(), next(), next()],
            spare: None,
        }
    }

    fn bits(&mut self) -> u64 {
        let [a, b, c, d] = self.state;
        let out = a.wrapping_add(d).rotate_left(23).wrapping_add(a);
        let (c1, d1) = (c ^ a, d ^ b);
        self.state = [a ^ d1, b ^ c1, c1 ^ (b << 17), d1.rotate_left(45)];
        out
    }

    /// In [0, 1).
    pub(crate) fn uniform(&mut self) -> f64 {
        let high = u32::try_from(self.bits() >> 32).unwrap_or(0);
        f64::from(high) / 4_294_967_296.0
    }

    /// In [low, high).
    pub(crate) fn between(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.uniform()
    }

    /// In 0..n; 0 for none.
    pub(crate) fn below(&mut self, n: usize) -> usize {
        let n = u64::try_from(n).unwrap_or(u64::MAX).max(1);
        usize::try_from((self.bits() >> 11) % n).unwrap_or(0)
    }

    /// Standard normal.
    pub(crate) fn normal(&mut self) -> f64 {
        if let Some(v) = self.spare.take() {
            return v;
        }
        loop {
            let (u, v) = (self.between(-1.0, 1.0), self.between(-1.0, 1.0));
            let s = u * u + v * v;
            if s > 0.0 && s < 1.0 {
                let f = (-2.0 * s.ln() / s).sqrt();
                self.spare = Some(v * f);
                return u * f;
            }
        }
    }

    /// Exponential with a mean.
    pub(crate) fn exponential(&mut self, mean: f64) -> f64 {
        -mean * (1.0 - self.uniform()).ln()
    }

    /// Poisson count: arrivals of a unit-rate process up to `mean`.
    pub(crate) fn poisson(&mut self, mean: f64) -> usize {
        let (mut at, mut n) = (self.exponential(1.0), 0);
        while at < mean {
            at += self.exponential(1.0);
            n += 1;
        }
        n
    }
}
