// Conjugate gradients within a trust region, all on the device: `linear.cg_in_ball`, step for step.
//
// Scalars live in `state`, decisions in `flags`, so that nothing waits for the host: once flags[LIVE] is zero every
// kernel returns at once, and launches that were enqueued ahead, or captured in a graph, do no harm.

// M is a diagonal, or a full matrix whose inverse `ball_solve` multiplies by. Products with M are not made: the
// M-products of step and direction follow from what conjugate gradients have (Conn, Gould & Toint 2000, section 7.5.1).

enum { ZR, GOAL, RADIUS, SCALE, ALPHA, BETA, ALONG, SQUARE, LENGTH, SLOPE, LEFT };  // state:
// r'z, its root's goal, radius, C, length of a step and beta; s'Mp, p'Mp, s'Ms; g's and s'r of the last step
enum { LIVE, BORDER, PRODUCTS, MOST, TICKET, FIRST };  // flags

#define FLAT 1e-16  // relative curvature along a direction that counts as none

// What the next direction's coefficients are, r'z being known; or the end.
__device__ inline void go_on(double zr, double* state, int* flags) {
  if (flags[FIRST]) {
    flags[FIRST] = 0;
    state[GOAL] = 0.1 * sqrt(zr);
    state[BETA] = 0.0;
    state[SQUARE] = zr;
    flags[LIVE] = sqrt(zr) > state[GOAL] && flags[MOST] > 0;
  } else {
    const double beta = zr / state[ZR];
    state[ALONG] = beta * (state[ALONG] + state[ALPHA] * state[SQUARE]);
    state[SQUARE] = zr + beta * beta * state[SQUARE];
    state[BETA] = beta;
    if (flags[BORDER] || sqrt(zr) <= state[GOAL] || flags[PRODUCTS] >= flags[MOST]) flags[LIVE] = 0;
  }
  state[ZR] = zr;
}

// Everything as before the first step. M null: it is a full matrix, and `ball_solve` comes next.
extern "C" __global__ void __launch_bounds__(256)
ball_start(int size, int length, double radius, double scale, int most, const double* gradient, const double* M,
           double* step, double* residual, double* direction, double* product, double* state, int* flags,
           double* partial) {
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
  state[RADIUS] = radius;
  state[SCALE] = scale;
  state[ALONG] = state[LENGTH] = state[SLOPE] = state[LEFT] = 0.0;
  flags[BORDER] = 0;
  flags[PRODUCTS] = 0;
  flags[MOST] = most;
  flags[FIRST] = flags[LIVE] = 1;
  if (M) go_on(sum[0], state, flags);
}

// product = scale * product + penalised * direction, the curvature along the direction, and how far to go along it.
extern "C" __global__ void __launch_bounds__(256)
ball_length(int size, const double* penalised, const double* direction, double* product, double* state, int* flags,
            double* partial) {
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
  if (curvature <= FLAT * dd || !(longer <= radius * radius)) {
    const double room = radius * radius - ss, root = sqrt(larger(sd * sd + dd * room, 0.0));
    state[ALPHA] = sd >= 0.0 ? room / (sd + root) : (root - sd) / dd;
    state[LENGTH] = radius * radius;
    flags[BORDER] = 1;
  } else {
    state[ALPHA] = alpha;
    state[LENGTH] = longer;
  }
}

extern "C" __global__ void __launch_bounds__(256)
ball_move(int size, const double* gradient, const double* M, const double* direction, const double* product,
          double* step, double* residual, double* state, int* flags, double* partial) {
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
  if (M) go_on(sum[2], state, flags);
}

// z = inverse * residual, a warp for each row of the symmetric inverse.
extern "C" __global__ void __launch_bounds__(256)
ball_solve(int size, const double* inverse, const double* residual, double* z, double* state, int* flags,
           double* partial) {
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
  go_on(sum[0], state, flags);
}

// The next direction, and a product of zeros to add to. M null: z is given.
extern "C" __global__ void __launch_bounds__(256)
ball_turn(int size, int length, const double* M, const double* z, const double* residual, double* direction,
          double* product, const double* state, const int* flags) {
  if (!flags[LIVE]) return;
  const double beta = state[BETA];
  const int stride = gridDim.x * blockDim.x;
  for (int j = blockIdx.x * blockDim.x + threadIdx.x; j < length; j += stride) product[j] = 0.0;
  for (int j = blockIdx.x * blockDim.x + threadIdx.x; j < size; j += stride)
    direction[j] = (M ? residual[j] / M[j] : z[j]) + beta * direction[j];
}
