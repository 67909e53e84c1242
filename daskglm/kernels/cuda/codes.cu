// Rows of codes beside numbers, as `kernels.coded_rows.Coded` has them: what a thread reads of them.

struct CodedRows {
  const unsigned char* narrow;
  const unsigned short* middle;
  const unsigned* wide;
  const REAL* floats;
  const long long* first;  // level of code 0 of each code column
  int p, q, r, k;          // code columns before the end of each kind, and numbers of a row
};

// The level of row i in code column j.
__device__ inline int64 level_of(const CodedRows& X, int64 i, int j) {
  const unsigned code = j < X.p   ? X.narrow[i * X.p + j]
                        : j < X.q ? X.middle[i * (X.q - X.p) + j - X.p]
                                  : X.wide[i * (X.r - X.q) + j - X.q];
  return X.first[j] + code;
}

// The tables: row `level` has the coefficients of a level, of which there are `width`.
struct LevelTables {
  const INDEX* indptr;
  const INDEX* columns;
  const double* values;
  int width;
};

// Call entry(coefficient, value) for all values of row i that thread `me` of `threads` has.
template <class Entry>
__device__ inline void each_value(const CodedRows& X, const LevelTables& tables, int64 i, int me,
                                  int threads, Entry entry) {
  for (int j = me; j < X.r; j += threads) {
    const int64 level = level_of(X, i, j);
    for (INDEX t = tables.indptr[level]; t < tables.indptr[level + 1]; ++t)
      entry((int64)tables.columns[t], tables.values[t]);
  }
  for (int j = me; j < X.k; j += threads)
    entry((int64)tables.width + j, widen(X.floats[i * X.k + j]));
}
