// Dual coordinate ascent on rows of codes beside numbers: dual.cu's epochs.

struct CodedTeam {
  CodedRows rows;
  LevelTables tables;
};

template <class Entry>
__device__ inline void each_of_team(const CodedTeam& X, int64 i, Entry entry) {
  each_value(X.rows, X.tables, i, threadIdx.x, blockDim.x, entry);
}

extern "C" __global__ void __launch_bounds__(256)
dual_sweep_coded(const unsigned char* narrow, const unsigned short* middle, const unsigned* wide,
                 const REAL* floats, const long long* first, int p, int q, int r, int k,
                 long long rows, const INDEX* indptr, const INDEX* columns, const double* values,
                 int width, int code, double p1, double p2, const VECTOR* y, const VECTOR* weight,
                 double C, const double* norms, double bias, double offset, double* alpha,
                 double* replicas, double* seen, int bucket, long long key, int fixed, double sigma,
                 double damp, double threshold) {
  const CodedTeam X = {{narrow, middle, wide, floats, first, p, q, r, k},
                       {indptr, columns, values, width}};
  sweep_rows(X, rows, width + k, code, p1, p2, y, weight, C, norms, bias, offset, alpha, replicas,
             seen, bucket, key, fixed, sigma, damp, threshold);
}
