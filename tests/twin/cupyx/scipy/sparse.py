"""CSR matrices of the stand-in for CuPy, as much of them as the package uses."""

import cupy
import scipy.sparse as sp


class csr_matrix:
    """CSR on the "device"."""

    format = "csr"
    ndim = 2

    def __init__(self, arg, shape=None, dtype=None, copy=False):
        if sp.issparse(arg):
            arg = arg.tocsr()
            shape, arg = (
                arg.shape,
                (cupy.asarray(arg.data), cupy.asarray(arg.indices), cupy.asarray(arg.indptr)),
            )
        self.data, self.indices, self.indptr = arg
        if not all(isinstance(part, cupy.ndarray) for part in arg):
            raise TypeError("parts of a CSR matrix must be cupy arrays")
        self.shape = tuple(shape)

    @property
    def device(self):
        raise NotImplementedError  # as in CuPy 14

    dtype = property(lambda self: self.data.dtype)
    nnz = property(lambda self: self.data.size)

    @property
    def has_canonical_format(self):
        return bool(self.get().has_canonical_format)

    def get(self, stream=None):
        return sp.csr_matrix(
            (self.data.get(), self.indices.get(), self.indptr.get()), shape=self.shape
        )

    def copy(self):
        return csr_matrix(
            (self.data.copy(), self.indices.copy(), self.indptr.copy()), shape=self.shape
        )

    def tocsr(self, copy=False):
        return self

    def tocsc(self, copy=False):
        if self.indices.dtype != "int32":
            raise TypeError("cupyx has int32 indices only")
        host = self.get().tocsc()
        out = csr_matrix.__new__(csr_matrix)
        out.format, out.shape = "csc", self.shape
        out.data, out.indices, out.indptr = (
            cupy.asarray(p) for p in (host.data, host.indices, host.indptr)
        )
        return out

    def sum_duplicates(self):
        host = self.get()
        host.sum_duplicates()
        self.__init__(host)

    def __getitem__(self, rows):
        if not isinstance(rows, (slice, cupy.ndarray)):
            raise TypeError("rows of the stand-in are a slice or a device array of numbers")
        return csr_matrix(self.get()[rows.get() if isinstance(rows, cupy.ndarray) else rows])


def issparse(x):
    return isinstance(x, csr_matrix)


def isspmatrix_csr(x):
    return isinstance(x, csr_matrix)
