"""Arrays of the stand-in for CuPy."""

import weakref

import numpy as np

GUARD = 256
BYTE = 0x5A


class ndarray:
    """A NumPy array that only kernels and this module may see."""

    __array_priority__ = 100
    used = 0

    def __init__(self, a, base=None):
        self._a, self._base = a, base

    @classmethod
    def allocate(cls, shape, dtype):
        dtype = np.dtype(dtype)
        size = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
        raw = np.full(size + 2 * GUARD, BYTE, np.uint8)
        inner = raw[GUARD : GUARD + size].view(dtype).reshape(shape)
        inner[...] = np.nan if dtype.kind == "f" else 77
        ndarray.used += size
        weakref.finalize(raw.base if raw.base is not None else raw, _free, size)
        return cls(inner, raw)

    def check(self):
        raw = self._base
        if raw is not None and not ((raw[:GUARD] == BYTE).all() and (raw[-GUARD:] == BYTE).all()):
            raise AssertionError("a kernel wrote outside an array")

    def __array__(self, *args, **kwargs):
        raise TypeError("Implicit conversion to a NumPy array is not allowed. Please use `.get()`.")

    def __array_ufunc__(self, ufunc, method, *inputs, **kwargs):
        if any(isinstance(x, np.ndarray) and x.ndim for x in inputs):
            raise TypeError("Unsupported type numpy.ndarray")
        return wrap(getattr(ufunc, method)(*unwrap(inputs), **unwrap(kwargs)))

    def __array_function__(self, function, types, args, kwargs):
        import cupy

        module = cupy.linalg if function.__module__ == "numpy.linalg" else cupy
        if not hasattr(module, function.__name__):
            raise TypeError(f"cupy (stand-in) has no {function.__name__}")
        return getattr(module, function.__name__)(*args, **kwargs)

    shape = property(lambda self: self._a.shape)
    dtype = property(lambda self: self._a.dtype)
    ndim = property(lambda self: self._a.ndim)
    size = property(lambda self: self._a.size)
    nbytes = property(lambda self: self._a.nbytes)
    itemsize = property(lambda self: self._a.itemsize)
    flags = property(lambda self: self._a.flags)
    T = property(lambda self: ndarray(self._a.T, self._base))
    data = property(lambda self: _Pointer(self._a.ctypes.data))
    device = property(lambda self: _device())

    def __len__(self):
        return len(self._a)

    def __getitem__(self, key):
        parts = key if isinstance(key, tuple) else (key,)
        if all(
            part is None or part is Ellipsis or isinstance(part, (int, np.integer, slice))
            for part in parts
        ):
            full = parts if Ellipsis in parts else (*parts, ...)
            return ndarray(self._a[full], self._base)  # a view, as in CuPy also of one element
        _default()
        return wrap(self._a[unwrap(key)])

    def __setitem__(self, key, value):
        _default()
        _refuse(value)
        self._a[unwrap(key)] = unwrap(value)

    def get(self, stream=None, order="C", out=None, blocking=True):
        from cupy import cuda

        def copy():
            out[...] = self._a

        if out is None:
            out = np.empty(self.shape, self.dtype)
        elif out.shape != self.shape or out.dtype != self.dtype or not out.flags.c_contiguous:
            raise ValueError("out does not fit")
        stream = stream or cuda.get_current_stream()
        stream.enqueue(copy)
        if blocking:
            stream.synchronize()
        return out

    def set(self, arr, stream=None):
        from cupy import cuda

        if not isinstance(arr, np.ndarray) or arr.dtype != self.dtype or arr.shape != self.shape:
            raise ValueError("set() takes a NumPy array of the same shape and dtype")
        if not arr.flags.c_contiguous or not self._a.flags.c_contiguous:
            raise ValueError("set() takes contiguous arrays")

        def copy():
            self._a[...] = arr

        (stream or cuda.get_current_stream()).enqueue(copy)

    def item(self):
        _default()
        return self._a.item()

    def tolist(self):
        _default()
        return self._a.tolist()

    def __reduce__(self):
        _default()
        return _restore, (np.array(self._a),)

    def __float__(self):
        return float(self.item())

    def __int__(self):
        return int(self.item())

    def __index__(self):
        return int(self.item())

    def __bool__(self):
        return bool(self.item())

    def __repr__(self):
        return f"device {self._a!r}"

    def fill(self, value):
        self[...] = value

    def view(self, dtype=None):
        return ndarray(self._a.view(dtype), self._base)

    def reshape(self, *shape):
        return ndarray(self._a.reshape(*shape), self._base)

    def ravel(self):
        return wrap(self._a.ravel(), self._base)


def _method(name):
    def method(self, *args, **kwargs):
        _default()
        return wrap(getattr(self._a, name)(*unwrap(args), **unwrap(kwargs)))

    return method


for _name in "sum min max any all argmax argmin astype copy dot cumsum mean trace".split():
    setattr(ndarray, _name, _method(_name))


def _operator(name, inplace):
    def operator(self, other):
        _default()
        _refuse(other)
        with np.errstate(all="ignore"):  # CuPy does not warn
            result = getattr(self._a, name)(unwrap(other))
        if result is NotImplemented:
            return NotImplemented
        return self if inplace else wrap(result)

    return operator


for _name in "add sub mul truediv floordiv pow matmul mod and or".split():
    for _kind in ("", "r", "i"):
        _full = f"__{_kind}{_name}__"
        setattr(ndarray, _full, _operator(_full, _kind == "i"))
for _name in "eq ne lt le gt ge".split():
    setattr(ndarray, f"__{_name}__", _operator(f"__{_name}__", False))
for _name in ("__neg__", "__abs__", "__invert__"):
    setattr(ndarray, _name, _method(_name))
ndarray.__hash__ = None


class _Pointer:
    def __init__(self, address):
        self.ptr = address


def _refuse(value):
    if isinstance(value, np.ndarray) and value.ndim:
        raise TypeError("Unsupported type <class 'numpy.ndarray'>")


def _default():
    from cupy import cuda

    cuda.wait_for_default_stream()


def _device():
    from cupy import cuda

    return cuda.Device(0)


def _restore(a):
    import cupy

    return cupy.asarray(a)


def _free(size):
    ndarray.used -= size


def unwrap(value):
    """The NumPy arrays behind device arrays; NumPy arrays themselves are refused."""
    if isinstance(value, ndarray):
        return value._a
    if isinstance(value, tuple):
        return tuple(unwrap(v) for v in value)
    if isinstance(value, list):
        return [unwrap(v) for v in value]
    if isinstance(value, dict):
        return {k: unwrap(v) for k, v in value.items()}
    _refuse(value)
    return value


def wrap(value, base=None):
    """Results of NumPy as device arrays."""
    if isinstance(value, (np.ndarray, np.generic)):
        if base is not None and isinstance(value, np.ndarray) and np.may_share_memory(value, base):
            return ndarray(value, base)
        value = np.asarray(value)
        out = ndarray.allocate(value.shape, value.dtype)
        out._a[...] = value
        return out
    if isinstance(value, tuple):
        return tuple(wrap(v) for v in value)
    return value
