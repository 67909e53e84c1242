// The losses of exponential families: half the unit deviance of a target y as a function of the
// margin z, with its slope and its curvature (or the expected one, where the loss is not convex).
// The formulas are those of losses/, one function for each `row` there. A margin at which a mean
// does not exist has an infinite value.

// Codes, as in losses/base.py.
#define POISSON 20
#define POISSON_IDENTITY 21
#define POISSON_SQRT 22
#define GAMMA 23
#define GAMMA_INVERSE 24
#define GAMMA_IDENTITY 25
#define INVERSE_GAUSSIAN 26
#define INVERSE_GAUSSIAN_SQUARED 27
#define TWEEDIE 28
#define TWEEDIE_ABOVE_TWO 29
#define NEGATIVE_BINOMIAL 30
#define BINOMIAL 31
#define BINOMIAL_PROBIT 32
#define BINOMIAL_CLOGLOG 33
#define GAUSSIAN_LOG 34
#define GAUSSIAN_INVERSE 35
#define BINOMIAL_LOG 36
#define BINOMIAL_IDENTITY 37
#define INVERSE_GAUSSIAN_IDENTITY 38
#define TWEEDIE_IDENTITY 39
#define TWEEDIE_POWER 40

// Largest curvature that is returned, as in losses/poisson.py.
#define LARGEST_CURVATURE 1e30

#ifdef __CUDA_ON_CPU__
#define INFINITE INFINITY
#else
#define INFINITE __longlong_as_double(0x7ff0000000000000LL)
#endif

// The logarithm of a number that may be zero.
__device__ inline double log_of(double x) { return log(larger(x, 1e-300)); }

// Not below zero, where rounding may have put it; NaN stays.
__device__ inline double raised(double value) { return value < 0.0 ? 0.0 : value; }

// The margin if it is positive, else NaN, which makes slope and curvature NaN.
__device__ inline double positive(double z) { return z > 0.0 ? z : nan(""); }

// The value of a loss whose margins must be positive: it is infinite at others.
__device__ inline double where_positive(double z, double value) {
  return z > 0.0 ? value : INFINITE;
}

// A curvature cut off at the largest; NaN stays.
__device__ inline double capped(double curvature) {
  return curvature > LARGEST_CURVATURE ? LARGEST_CURVATURE : curvature;
}

// exp(d) - 1 - d for |d| <= NEAR, by its series: the difference would cancel.
#define NEAR 0.5
__device__ inline double exp_remainder(double d) {
  double p = 1.0 / 1307674368000.0;
  p = p * d + 1.0 / 87178291200.0;
  p = p * d + 1.0 / 6227020800.0;
  p = p * d + 1.0 / 479001600.0;
  p = p * d + 1.0 / 39916800.0;
  p = p * d + 1.0 / 3628800.0;
  p = p * d + 1.0 / 362880.0;
  p = p * d + 1.0 / 40320.0;
  p = p * d + 1.0 / 5040.0;
  p = p * d + 1.0 / 720.0;
  p = p * d + 1.0 / 120.0;
  p = p * d + 1.0 / 24.0;
  p = p * d + 1.0 / 6.0;
  p = p * d + 0.5;
  return d * d * p;
}

// e - 1 - d for e = exp(d): at least zero, and exact to rounding near zero.
__device__ inline double exp_less_linear(double d, double e) {
  return fabs(d) <= NEAR ? exp_remainder(d) : e - 1.0 - d;
}

// ---- counts
__device__ inline LossTerms poisson(double y, double z) {
  const double mu = exp(z), d = z - log_of(y);
  LossTerms terms;
  terms.value = fabs(d) <= NEAR ? y * exp_remainder(d) : mu - y - y * d;
  if (y == 0.0) terms.value = mu;
  terms.slope = mu - y;
  terms.curvature = smaller(mu, LARGEST_CURVATURE);
  return terms;
}

__device__ inline LossTerms poisson_identity(double y, double z) {
  const double t = positive(z), ratio = y / t;
  LossTerms terms;
  terms.value = where_positive(z, t - y + (y > 0.0 ? y * log_of(ratio) : 0.0));
  terms.slope = 1.0 - ratio;
  terms.curvature = y / (t * t);
  return terms;
}

__device__ inline LossTerms poisson_sqrt(double y, double z) {
  const double t = positive(z), mu = t * t, ratio = y / mu;
  LossTerms terms;
  terms.value = where_positive(z, mu - y + (y > 0.0 ? y * log_of(ratio) : 0.0));
  terms.slope = 2.0 * t - 2.0 * y / t;
  terms.curvature = 2.0 + 2.0 * ratio;
  return terms;
}

// p log(p / r) + q log(q / (1 - r)) for p + q = 1, r the share whose log odds are d above p's: by
// the smaller share, of which log(1 + s (exp(t) - 1)) - s t is to be had.
__device__ inline double divergence(double p, double q, double d) {
  const double s = p > q ? q : p, other = p > q ? p : q, t = p > q ? -d : d;
  const double bent = exp_less_linear(t, exp(t)), grown = s * (t + bent);
  double value;
  if (grown < 1.0)
    value = s * bent - (grown - log1p(grown));
  else
    value = other * t + log(s + other * exp(-t));
  return raised(value) + 0.0 * d;
}

__device__ inline LossTerms negative_binomial(double theta, double y, double z) {
  const double e = exp(-fabs(z));
  // mu / (1 + theta mu) and 1 / (1 + theta mu), for margins of any size
  const double over = z > 0.0 ? 1.0 / (e + theta) : 1.0 / (1.0 + theta * e);
  const double mean = z > 0.0 ? over : e * over, rest = z > 0.0 ? e * over : over;
  // a share theta mu / (1 + theta mu) of y + 1 / theta trials; without any, log(1 + theta mu)
  const double away = 1.0 / (1.0 + theta * y), x = z + log(theta);
  LossTerms terms;
  if (y > 0.0)
    terms.value = (y + 1.0 / theta) * divergence(theta * y * away, away, z - log_of(y));
  else
    terms.value = (larger(x, 0.0) + log1p(exp(-fabs(x)))) / theta + 0.0 * z;
  terms.slope = mean - y * rest;
  terms.curvature = (1.0 + theta * y) * mean * rest;
  return terms;
}

// ---- positive numbers
__device__ inline LossTerms gamma_log(double y, double z) {
  const double d = z - log_of(y), ratio = exp(-d);
  LossTerms terms;
  terms.value = fabs(d) <= NEAR ? exp_remainder(-d) : ratio - 1.0 + d;
  terms.slope = 1.0 - ratio;
  terms.curvature = smaller(ratio, LARGEST_CURVATURE);
  return terms;
}

__device__ inline LossTerms gamma_inverse(double y, double z) {
  const double t = positive(z);
  LossTerms terms;
  terms.value = where_positive(z, y * t - 1.0 - log_of(y * t));
  terms.slope = y - 1.0 / t;
  terms.curvature = 1.0 / (t * t);
  return terms;
}

__device__ inline LossTerms gamma_identity(double y, double z) {
  const double t = positive(z), ratio = y / t;
  LossTerms terms;
  terms.value = where_positive(z, ratio - 1.0 - log_of(ratio));
  terms.slope = (t - y) / (t * t);
  terms.curvature = 1.0 / (t * t);
  return terms;
}

__device__ inline LossTerms inverse_gaussian(double y, double z) {
  const double rate = exp(-z), r = 1.0 - y * rate;
  LossTerms terms;
  terms.value = 0.5 * r * r / y;
  terms.slope = rate * r;
  terms.curvature = smaller(rate, LARGEST_CURVATURE);
  return terms;
}

__device__ inline LossTerms inverse_gaussian_squared(double y, double z) {
  const double root = sqrt(positive(z)), r = y * root - 1.0;
  LossTerms terms;
  terms.value = where_positive(z, 0.5 * r * r / y);
  terms.slope = 0.5 * r / root;
  terms.curvature = 0.25 / (root * root * root);
  return terms;
}

__device__ inline LossTerms inverse_gaussian_identity(double y, double z) {
  const double rate = 1.0 / positive(z), r = 1.0 - y * rate;
  LossTerms terms;
  terms.value = where_positive(z, 0.5 * r * r / y + 0.0 * z);
  terms.slope = rate * rate * r;
  terms.curvature = capped(rate * rate * rate);
  return terms;
}

// Of a power p. For one above 2 the loss is not convex, and the curvature is the expected one.
__device__ inline LossTerms tweedie_uncut(double p, double y, double z, bool convex) {
  const double a = p - 1.0, b = 2.0 - p, log_y = log_of(y);
  double up = 0.0, down = 0.0, least = 0.0;  // mu^b, y mu^-a and y^b
  // by one copy of exp, since three of them at once take more registers than there are
#pragma unroll 1
  for (int turn = 0; turn < 3; ++turn) {
    const double power = exp(turn == 0 ? b * log_y : turn == 1 ? -a * z : b * z);
    if (turn == 0)
      least = y > 0.0 ? power : 0.0;
    else if (turn == 1)
      down = y > 0.0 ? y * power : 0.0;  // zero also where the power is infinite
    else
      up = power;
  }
  LossTerms terms;
  if (y > 0.0) {
    const double d = z - log_y;
    // linear parts of unlike signs cancel, and far out nothing else would be left of them
    const bool cancels = !convex && b < 0.0 && fabs(b * d) > NEAR;
    double parts = (cancels ? down / least - 1.0 : exp_less_linear(-a * d, down / least)) / a;
    if (b != 0.0) parts += (cancels ? up / least - 1.0 : exp_less_linear(b * d, up / least)) / b;
    terms.value = least * parts + 0.0 * z;
  } else {
    terms.value = up / b + 0.0 * z;
  }
  terms.slope = up - down;
  terms.curvature = convex ? a * down + b * up : up;
  return terms;
}

__device__ inline LossTerms tweedie(double p, double y, double z, bool convex) {
  LossTerms terms = tweedie_uncut(p, y, z, convex);
  terms.curvature = smaller(terms.curvature, LARGEST_CURVATURE);
  return terms;
}

// With the link z = mu^q, by the margin of the log link.
__device__ inline LossTerms tweedie_power(double p, double q, double y, double z) {
  const double t = positive(z), turned = 1.0 / (q * t);
  LossTerms terms = tweedie_uncut(p, y, log(t) / q, false);
  terms.value = where_positive(z, terms.value + 0.0 * z);
  terms.slope *= turned;
  terms.curvature = capped(terms.curvature * turned * turned);
  return terms;
}

// ---- shares from 0 to 1
// y log(y) + (1 - y) log(1 - y), zero at both ends.
__device__ inline double entropy(double y) {
  if (!(y > 0.0 && y < 1.0)) return 0.0;
  return y * log_of(y) + (1.0 - y) * log_of(1.0 - y);
}

__device__ inline LossTerms binomial(double y, double z) {
  const double e = exp(-fabs(z)), r = 1.0 / (1.0 + e);
  LossTerms terms;
  if (y > 0.0 && y < 1.0)
    terms.value = divergence(y, 1.0 - y, z - log(y / (1.0 - y)));
  else
    terms.value = larger(y == 0.0 ? z : -z, 0.0) + log1p(e) + 0.0 * z;
  // by the smaller of both tails, which is not a difference of numbers near one
  terms.slope = z > 0.0 ? (1.0 - y) - e * r : e * r - y;
  terms.curvature = e * r * r;
  return terms;
}

// Of the normal distribution at m: the density over the left tail (`ratio`), that plus m (`bent`),
// which would cancel, and the logarithm of the tail.
struct Tail {
  double ratio, bent, log;
};

__device__ inline Tail tail_at(double m) {
  const double root_half = 0.70710678118654752440, root_two_pi = 2.50662827463100050242;
  Tail tail;
  if (m > -4.0) {
    const double half = 0.5 * erfc(-m * root_half);
    tail.ratio = exp(-0.5 * m * m) / (root_two_pi * half);
    tail.bent = tail.ratio + m;
    // towards one by the other tail, since a tail near one does not tell how near
    tail.log = m > 0.0 ? log1p(-0.5 * erfc(m * root_half)) : log(half);
    return tail;
  }
  // Mills's ratio by its continued fraction: 1e-15 with so many terms
  double fraction = -m;
#pragma unroll 1
  for (int k = 40; k > 1; --k) fraction = -m + k / fraction;
  tail.bent = 1.0 / fraction;
  tail.ratio = -m + tail.bent;
  tail.log = -0.5 * m * m - log(root_two_pi * tail.ratio);
  return tail;
}

__device__ inline LossTerms binomial_probit(double y, double z) {
  LossTerms terms = {entropy(y), 0.0, 0.0};
  // both tails by one copy of the code: the left one for y, the right one for 1 - y
#pragma unroll 1
  for (int side = 0; side < 2; ++side) {
    const double share = side ? 1.0 - y : y, sign = side ? -1.0 : 1.0, m = sign * z;
    const Tail tail = tail_at(m);
    terms.value -= share * tail.log;
    terms.slope -= sign * share * tail.ratio;
    terms.curvature += share * tail.ratio * tail.bent;
  }
  terms.value = raised(terms.value) + 0.0 * z;
  terms.curvature = larger(terms.curvature, 0.0);
  return terms;
}

// With the complementary log-log link, u = -log(1 - mu) = exp(z).
__device__ inline LossTerms binomial_cloglog(double y, double z) {
  const double u = exp(z), other = y < 1.0 ? (1.0 - y) * u : 0.0;
  // -log(mu), u / (exp(u) - 1) and minus its derivative in z
  double seldom = 0.0, odds = 0.0, bend = 0.0;
  if (u < 1e-8) {
    seldom = -z + 0.5 * u;
    odds = 1.0 - 0.5 * u;
    bend = u * (0.5 - u / 6.0);
  } else if (u < 700.0) {
    const double grown = expm1(u);
    odds = u / grown;
    seldom = u < 1.0 ? -log(-expm1(-u)) : -log1p(-exp(-u));
    bend = u < 1.0 ? odds * (u * grown - exp_less_linear(u, 1.0 + grown)) / grown
                   : odds * (u + odds - 1.0);
  }
  LossTerms terms;
  terms.value = raised(other + y * seldom + entropy(y)) + 0.0 * z;
  terms.slope = other - y * odds;
  terms.curvature = (1.0 - y) * smaller(u, LARGEST_CURVATURE) + y * bend;
  return terms;
}

// With the log link: margins must be below zero.
__device__ inline LossTerms binomial_log(double y, double z) {
  const double t = z < 0.0 ? z : nan(""), other = 1.0 - y;
  // mu / (1 - mu), and -log(1 - mu) by the smaller of both shares
  const double odds = exp(t) / -expm1(t);
  const double seldom = t > -0.5 ? -log(-expm1(t)) : -log1p(-exp(t));
  LossTerms terms;
  if (y > 0.0 && y < 1.0)
    terms.value = divergence(y, other, t + seldom - log(y / other));
  else
    terms.value = (y == 0.0 ? seldom : -t) + 0.0 * t;
  if (!(z < 0.0)) terms.value = INFINITE;
  terms.slope = other * odds - y;
  terms.curvature = other * odds * (1.0 + odds);
  return terms;
}

// With the identity link: margins must be between zero and one.
__device__ inline LossTerms binomial_identity(double y, double z) {
  const bool inside = z > 0.0 && z < 1.0;
  const double t = inside ? z : nan(""), rest = 1.0 - t, other = 1.0 - y;
  LossTerms terms;
  if (y > 0.0 && y < 1.0)
    terms.value = divergence(y, other, log(t / rest) - log(y / other));
  else
    terms.value = y == 0.0 ? -log1p(-t) : -log(t);
  if (!inside) terms.value = INFINITE;
  terms.slope = (t - y) / (t * rest);
  terms.curvature = y / (t * t) + other / (rest * rest);
  return terms;
}

// ---- any numbers
__device__ inline LossTerms gaussian_log(double y, double z) {
  const double mu = exp(z), r = mu - y;
  LossTerms terms;
  terms.value = 0.5 * r * r;
  terms.slope = mu * r;
  terms.curvature = smaller(mu * mu, LARGEST_CURVATURE);
  return terms;
}

__device__ inline LossTerms gaussian_inverse(double y, double z) {
  const double mu = 1.0 / positive(z), r = mu - y, square = mu * mu;
  LossTerms terms;
  terms.value = where_positive(z, 0.5 * r * r + 0.0 * z);
  terms.slope = -r * square;
  terms.curvature = capped(square * square);
  return terms;
}

template <int CODE>
__device__ inline LossTerms family_at(double p1, double p2, double y, double z) {
  static_assert(CODE >= POISSON && CODE <= TWEEDIE_POWER, "no loss has this code");
  if constexpr (CODE == POISSON) return poisson(y, z);
  if constexpr (CODE == POISSON_IDENTITY) return poisson_identity(y, z);
  if constexpr (CODE == POISSON_SQRT) return poisson_sqrt(y, z);
  if constexpr (CODE == GAMMA) return gamma_log(y, z);
  if constexpr (CODE == GAMMA_INVERSE) return gamma_inverse(y, z);
  if constexpr (CODE == GAMMA_IDENTITY) return gamma_identity(y, z);
  if constexpr (CODE == INVERSE_GAUSSIAN) return inverse_gaussian(y, z);
  if constexpr (CODE == INVERSE_GAUSSIAN_SQUARED) return inverse_gaussian_squared(y, z);
  if constexpr (CODE == TWEEDIE) return tweedie(p1, y, z, true);
  if constexpr (CODE == TWEEDIE_ABOVE_TWO) return tweedie(p1, y, z, false);
  if constexpr (CODE == NEGATIVE_BINOMIAL) return negative_binomial(p1, y, z);
  if constexpr (CODE == BINOMIAL) return binomial(y, z);
  if constexpr (CODE == BINOMIAL_PROBIT) return binomial_probit(y, z);
  if constexpr (CODE == BINOMIAL_CLOGLOG) return binomial_cloglog(y, z);
  if constexpr (CODE == GAUSSIAN_LOG) return gaussian_log(y, z);
  if constexpr (CODE == GAUSSIAN_INVERSE) return gaussian_inverse(y, z);
  if constexpr (CODE == BINOMIAL_LOG) return binomial_log(y, z);
  if constexpr (CODE == BINOMIAL_IDENTITY) return binomial_identity(y, z);
  if constexpr (CODE == INVERSE_GAUSSIAN_IDENTITY) return inverse_gaussian_identity(y, z);
  if constexpr (CODE == TWEEDIE_IDENTITY) return tweedie_power(p1, 1.0, y, z);
  if constexpr (CODE == TWEEDIE_POWER) return tweedie_power(p1, p2, y, z);
}
