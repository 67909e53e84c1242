// One visit of a row, shared by the kernels that read dense rows once for both products.
// mode: a loss code (>= 0), or PRODUCT: slopes are curvature times margin, and the value is v'Hv.
// What blocks sum up they leave in rows of `partial`, which `sum_partials` adds in their order, so that results do not
// depend on timing: [d gradient entries, sum of slopes, value] and, with the diagonal, d + 1 entries more.

#define PRODUCT -1

struct Row {
  double slope, curvature, value;
};

__device__ inline Row visit(int mode, const VECTOR* y, const VECTOR* weight, VECTOR* z, VECTOR* curvature, int64 i, double u) {
  Row row;
  if (mode == PRODUCT) {
    row.curvature = curvature[i];
    row.slope = row.curvature * u;
    row.value = row.slope * u;
  } else {
    Jet jet = loss_at(mode, y[i], u, weight ? (double)weight[i] : 1.0);
    z[i] = (VECTOR)u;
    if (curvature) curvature[i] = (VECTOR)jet.curvature;
    row.slope = jet.slope;
    row.curvature = jet.curvature;
    row.value = jet.value;
  }
  return row;
}
