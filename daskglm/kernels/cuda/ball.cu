// Conjugate gradients within a trust region, all on the device: `linear.cg_in_ball`, step for step.
//
// Scalars live in `state`, decisions in `flags`, so that nothing waits for the host: once flags[LIVE] is zero every
// kernel returns at once, and launches that were enqueued ahead, or captured in a graph, do no harm.

enum { ZR, GOAL, RADIUS, SCALE, ALPHA, BETA };      // state
enum { LIVE, BORDER, PRODUCTS, MOST, TICKET };      // flags

#define FLAT 1e-16  // relative curvature along a direction that counts as none

// Adds up to four sums over the grid; true for thread 0 of the block that is last, which then has the totals in `sum`.
__device__ inline bool grid_sums(double* sum, int count, double* partial, int* flags) {
  __shared__ double scratch[32];
  __shared__ int last;
  for (int k = 0; k < count; ++k) {
    double total = block_sum(sum[k], scratch);
    if (threadIdx.x == 0) partial[blockIdx.x * 4 + k] = total;
  }
  if (threadIdx.x == 0) {
    __threadfence();
    last = atomicInc((unsigned*)flags + TICKET, gridDim.x - 1) == gridDim.x - 1;
  }
  __syncthreads();
  if (!last) return false;
  __threadfence();
  for (int k = 0; k < count; ++k) {
    double total = 0.0;
    for (int b = threadIdx.x; b < (int)gridDim.x; b += blockDim.x) total += ((volatile double*)partial)[b * 4 + k];
    sum[k] = block_sum(total, scratch);
  }
  return threadIdx.x == 0;
}

extern "C" __global__ void __launch_bounds__(256)
ball_start(int size, double radius, double scale, int most, const double* gradient, const double* M, double* step,
           double* residual, double* direction, double* state, int* flags, double* partial) {
  double sum[1] = {0.0};
  for (int j = blockIdx.x * blockDim.x + threadIdx.x; j < size; j += gridDim.x * blockDim.x) {
    double r = -gradient[j], z = r / M[j];
    step[j] = 0.0;
    residual[j] = r;
    direction[j] = z;
    sum[0] += z * r;
  }
  if (!grid_sums(sum, 1, partial, flags)) return;
  state[ZR] = sum[0];
  state[GOAL] = 0.1 * sqrt(sum[0]);
  state[RADIUS] = radius;
  state[SCALE] = scale;
  flags[LIVE] = sqrt(sum[0]) > state[GOAL] && most > 0;
  flags[BORDER] = 0;
  flags[PRODUCTS] = 0;
  flags[MOST] = most;
}

// product = scale * product + penalised * direction, the curvature along the direction, and how far to go along it.
extern "C" __global__ void __launch_bounds__(256)
ball_length(int size, const double* penalised, const double* M, const double* step, const double* direction,
            double* product, double* state, int* flags, double* partial) {
  if (!flags[LIVE]) return;
  const double scale = state[SCALE];
  double sum[4] = {0.0, 0.0, 0.0, 0.0};
  for (int j = blockIdx.x * blockDim.x + threadIdx.x; j < size; j += gridDim.x * blockDim.x) {
    double v = direction[j], h = scale * product[j] + penalised[j] * v, s = step[j], m = M[j];
    product[j] = h;
    sum[0] += v * h;
    sum[1] += v * m * v;
    sum[2] += s * m * v;
    sum[3] += s * m * s;
  }
  if (!grid_sums(sum, 4, partial, flags)) return;
  const double curvature = sum[0], dd = sum[1], sd = sum[2], ss = sum[3], radius = state[RADIUS];
  const double alpha = state[ZR] / curvature;
  const bool flat = curvature <= FLAT * dd;
  flags[PRODUCTS] += 1;
  if (flat || sqrt(ss + alpha * (2.0 * sd + alpha * dd)) > radius) {
    const double room = radius * radius - ss, root = sqrt(larger(sd * sd + dd * room, 0.0));
    state[ALPHA] = sd >= 0.0 ? room / (sd + root) : (root - sd) / dd;
    flags[BORDER] = 1;
  } else {
    state[ALPHA] = alpha;
  }
}

extern "C" __global__ void __launch_bounds__(256)
ball_move(int size, const double* M, const double* direction, const double* product, double* step, double* residual,
          double* state, int* flags, double* partial) {
  if (!flags[LIVE]) return;
  const double alpha = state[ALPHA];
  double sum[1] = {0.0};
  for (int j = blockIdx.x * blockDim.x + threadIdx.x; j < size; j += gridDim.x * blockDim.x) {
    double r = residual[j] - alpha * product[j];
    step[j] += alpha * direction[j];
    residual[j] = r;
    sum[0] += r * (r / M[j]);
  }
  if (!grid_sums(sum, 1, partial, flags)) return;
  state[BETA] = sum[0] / state[ZR];
  state[ZR] = sum[0];
  if (flags[BORDER] || sqrt(sum[0]) <= state[GOAL] || flags[PRODUCTS] >= flags[MOST]) flags[LIVE] = 0;
}

extern "C" __global__ void __launch_bounds__(256)
ball_turn(int size, const double* M, const double* residual, double* direction, const double* state,
          const int* flags) {
  if (!flags[LIVE]) return;
  const double beta = state[BETA];
  for (int j = blockIdx.x * blockDim.x + threadIdx.x; j < size; j += gridDim.x * blockDim.x)
    direction[j] = residual[j] / M[j] + beta * direction[j];
}

extern "C" __global__ void __launch_bounds__(256)
ball_clear(int size, double* product) {
  for (int j = blockIdx.x * blockDim.x + threadIdx.x; j < size; j += gridDim.x * blockDim.x) product[j] = 0.0;
}
