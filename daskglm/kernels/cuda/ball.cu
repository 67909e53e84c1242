// Preconditioned conjugate gradients within a trust region (Steihaug), entirely on the device. The
// steps are those of `solvers.trust_region.steihaug_cg`.
//
// Scalars are in `state` and decisions in `flags`, so that no step waits for the host. Once
// flags[LIVE] is zero every kernel returns at once. Launches that were enqueued ahead, or captured
// in a graph, therefore do no harm.

// The preconditioner M is a diagonal, or a full matrix whose inverse `ball_solve` multiplies by. No
// product with M is formed: s'Mp, p'Mp and s'Ms follow from recurrences (Conn, Gould & Toint 2000,
// section 7.5.1).

// Places in `state`, for the step s, the direction p, the residual r and the gradient g.
enum {
  ZR,      // r'z, where z = M^-1 r
  GOAL,    // stop once sqrt(r'z) is at most this; before the first, the share of that
  RADIUS,  // of the trust region: s'Ms <= radius^2
  SCALE,   // factor of the losses, C
  ALPHA,   // length of the last step along p
  BETA,    // factor of the old direction in the next one
  ALONG,   // s'Mp
  SQUARE,  // p'Mp
  LENGTH,  // s'Ms
  SLOPE,   // g's
  LEFT     // s'r
};
// Places in `flags`. MOST is the largest number of products; TICKET belongs to `grid_sums`.
enum { LIVE, BORDER, PRODUCTS, MOST, TICKET, FIRST };

// Curvature along a direction, relative to p'Mp, at or below which the model counts as flat.
#define FLAT_CURVATURE 1e-16

// From r'z of the new residual, set beta for the next direction, or stop.
__device__ inline void update_direction(double zr, double* state, int* flags) {
  if (flags[FIRST]) {
    flags[FIRST] = 0;
    state[GOAL] *= sqrt(zr);
    state[BETA] = 0.0;
    state[SQUARE] = zr;
    flags[LIVE] = sqrt(zr) > state[GOAL] && flags[MOST] > 0;
  } else {
    const double beta = zr / state[ZR];
    state[ALONG] = beta * (state[ALONG] + state[ALPHA] * state[SQUARE]);
    state[SQUARE] = zr + beta * beta * state[SQUARE];
    state[BETA] = beta;
    if (flags[BORDER] || sqrt(zr) <= state[GOAL] || flags[PRODUCTS] >= flags[MOST])
      flags[LIVE] = 0;
  }
  state[ZR] = zr;
}

// Initialise vectors, scalars and flags for the step s = 0. If M is a full matrix (here null),
// `ball_solve` must be launched next: it computes z.
extern "C" __global__ void __launch_bounds__(256)
ball_start(int size, int length, double radius, double share, double scale, int most,
           const double* gradient, const double* M, double* step, double* residual,
           double* direction, double* product, double* state, int* flags, double* partial) {
  double sum[1] = {0.0};
  const int stride = gridDim.x * blockDim.x;
  for (int j = blockIdx.x * blockDim.x + threadIdx.x; j < length; j += stride) product[j] = 0.0;
  for (int j = blockIdx.x * blockDim.x + threadIdx.x; j < size; j += stride) {
    double r = -gradient[j], z = M ? r / M[j] : 0.0;
    step[j] = 0.0;
    residual[j] = r;
    direction[j] = z;
    sum[0] += z * r;
  }
  if (!grid_sums(sum, 1, partial, (unsigned*)flags + TICKET)) return;
  state[GOAL] = share;
  state[RADIUS] = radius;
  state[SCALE] = scale;
  state[ALONG] = state[LENGTH] = state[SLOPE] = state[LEFT] = 0.0;
  flags[BORDER] = 0;
  flags[PRODUCTS] = 0;
  flags[MOST] = most;
  flags[FIRST] = flags[LIVE] = 1;
  if (M) update_direction(sum[0], state, flags);
}

// Complete the Hessian-vector product: product = scale * product + penalised * direction. Then
// choose the step length alpha from the curvature along the direction.
extern "C" __global__ void __launch_bounds__(256)
ball_length(int size, const double* penalised, const double* direction, double* product,
            double* state, int* flags, double* partial) {
  if (!flags[LIVE]) return;
  const double scale = state[SCALE];
  double sum[1] = {0.0};
  for (int j = blockIdx.x * blockDim.x + threadIdx.x; j < size; j += gridDim.x * blockDim.x) {
    double v = direction[j], h = scale * product[j] + penalised[j] * v;
    product[j] = h;
    sum[0] += v * h;
  }
  if (!grid_sums(sum, 1, partial, (unsigned*)flags + TICKET)) return;
  const double curvature = sum[0], dd = state[SQUARE], sd = state[ALONG], ss = state[LENGTH];
  const double radius = state[RADIUS], alpha = state[ZR] / curvature;
  const double longer = ss + alpha * (2.0 * sd + alpha * dd);
  flags[PRODUCTS] += 1;
  // Go to the border where the model is flat or concave, or the full step leaves the region. The
  // negated comparison also stops at NaN.
  if (curvature <= FLAT_CURVATURE * dd || !(longer <= radius * radius)) {
    // the positive root of |s + alpha p|_M = radius, in the form without cancellation
    const double room = radius * radius - ss;
    const double root = sqrt(larger(sd * sd + dd * room, 0.0));
    state[ALPHA] = sd >= 0.0 ? room / (sd + root) : (root - sd) / dd;
    state[LENGTH] = radius * radius;
    flags[BORDER] = 1;
  } else {
    state[ALPHA] = alpha;
    state[LENGTH] = longer;
  }
}

// Take the step and update the residual and the sums over both.
extern "C" __global__ void __launch_bounds__(256)
ball_move(int size, const double* gradient, const double* M, const double* direction,
          const double* product, double* step, double* residual, double* state, int* flags,
          double* partial) {
  if (!flags[LIVE]) return;
  const double alpha = state[ALPHA];
  double sum[3] = {0.0, 0.0, 0.0};
  for (int j = blockIdx.x * blockDim.x + threadIdx.x; j < size; j += gridDim.x * blockDim.x) {
    double r = residual[j] - alpha * product[j], s = step[j] + alpha * direction[j];
    step[j] = s;
    residual[j] = r;
    sum[0] += gradient[j] * s;
    sum[1] += s * r;
    if (M) sum[2] += r * (r / M[j]);
  }
  if (!grid_sums(sum, 3, partial, (unsigned*)flags + TICKET)) return;
  state[SLOPE] = sum[0];
  state[LEFT] = sum[1];
  if (M) update_direction(sum[2], state, flags);
}

// z = inverse * residual, one warp per row of the symmetric inverse.
extern "C" __global__ void __launch_bounds__(256)
ball_solve(int size, const double* inverse, const double* residual, double* z, double* state,
           int* flags, double* partial) {
  if (!flags[LIVE]) return;
  const int lane = threadIdx.x % 32, warps = gridDim.x * (blockDim.x / 32);
  double sum[1] = {0.0};
  for (int i = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32; i < size; i += warps) {
    double total = 0.0;
#pragma unroll 4
    for (int j = lane; j < size; j += 32) total += inverse[(int64)i * size + j] * residual[j];
    total = lane_sum(total, 32);
    if (lane != 0) continue;
    z[i] = total;
    sum[0] += total * residual[i];
  }
  if (!grid_sums(sum, 1, partial, (unsigned*)flags + TICKET)) return;
  update_direction(sum[0], state, flags);
}

// The next direction: M^-1 r + beta * direction. `z` holds M^-1 r where M is null. Clears
// `product`, to which the next Hessian-vector product is added.
extern "C" __global__ void __launch_bounds__(256)
ball_turn(int size, int length, const double* M, const double* z, const double* residual,
          double* direction, double* product, const double* state, const int* flags) {
  if (!flags[LIVE]) return;
  const double beta = state[BETA];
  const int stride = gridDim.x * blockDim.x;
  for (int j = blockIdx.x * blockDim.x + threadIdx.x; j < length; j += stride) product[j] = 0.0;
  for (int j = blockIdx.x * blockDim.x + threadIdx.x; j < size; j += stride)
    direction[j] = (M ? residual[j] / M[j] : z[j]) + beta * direction[j];
}
