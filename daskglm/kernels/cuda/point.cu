// Turn the sums over rows at a point into objective, gradient and diagonal, by one launch. All
// scalars of the point are in one row, which the host copies once.

// gradient = scale * gradient + penalty * w and, unless null, diagonal = scale * diagonal +
// penalty. The intercept, at place d, has no penalty. `row` gets six numbers: the objective; |w|^2
// of the features and w of the intercept; the same two of the gradient; and |w - other|^2, which is
// zero if `other` is null.
extern "C" __global__ void __launch_bounds__(256)
point_finish(int size, int d, double scale, double penalty, const double* w, const double* other,
             const double* value, double* gradient, double* diagonal, double* row, int* ticket,
             double* partial) {
  double sum[3] = {0.0, 0.0, 0.0};
  for (int j = blockIdx.x * blockDim.x + threadIdx.x; j < size; j += gridDim.x * blockDim.x) {
    const double at = w[j], part = other ? at - other[j] : 0.0;
    const double g = scale * gradient[j] + (j < d ? penalty * at : 0.0);
    gradient[j] = g;
    if (diagonal) diagonal[j] = scale * diagonal[j] + (j < d ? penalty : 0.0);
    if (j < d) {
      sum[0] += at * at;
      sum[1] += g * g;
    } else {
      row[2] = at;
      row[4] = g;
    }
    sum[2] += part * part;
  }
  if (!grid_sums(sum, 3, partial, (unsigned*)ticket)) return;
  row[0] = scale * value[0] + 0.5 * penalty * sum[0];
  row[1] = sum[0];
  row[3] = sum[1];
  row[5] = sum[2];
  if (size == d) row[2] = row[4] = 0.0;
}
