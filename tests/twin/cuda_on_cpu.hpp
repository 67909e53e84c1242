// Runs CUDA C++ kernels on a CPU, for tests: a C++ compiler compiles the package's sources with this.
//
// Every CUDA thread is a fiber of one thread of the machine. Fibers run in a random order, which
// changes at every barrier, so that a missing barrier shows as a wrong result; a barrier that not
// all threads reach ends the program. Blocks run in random order, one after another or, with
// TWIN_THREADS in the environment, on so many threads of the machine at once. Asynchronous copies to
// shared memory are made when they are waited for. Nothing here tells of speed or of how a GPU
// orders memory.
#pragma once
#include <atomic>
#include <cmath>
#include <csetjmp>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <thread>
#include <ucontext.h>
#include <vector>

struct dim3 { unsigned x = 1, y = 1, z = 1; };
static thread_local dim3 threadIdx, blockIdx;
static dim3 blockDim, gridDim;
static const int warpSize = 32;

#define __global__
#define __device__ static
#define __forceinline__ inline
#define __restrict__ __restrict
#define __shared__ static thread_local
#define __launch_bounds__(...)
#define __align__(bytes) alignas(bytes)
#define __CUDA_ON_CPU__ 1

namespace twin {
enum Wait { RUN, WARP, BLOCK, DONE };
struct Copy { void* to; const void* from; size_t size; int group; };
struct Fiber {
  ucontext_t context;
  jmp_buf at;
  std::vector<char> stack;
  bool begun = false;
  dim3 index;
  Wait wait;
  std::vector<Copy> copies;
  int group;
  int turn;  // which of `slots` its last shuffle used
};
// What a thread of the machine runs blocks with. Its variables are found by one pointer, since each of
// a library's own that every thread has is looked up by a call.
struct Machine {
  std::vector<Fiber> fibers;
  unsigned self;
  jmp_buf home;
  std::vector<double> dynamic_shared;
  uint64_t slots[2][1024];
  uint64_t random_bits = 0x9E3779B97F4A7C15;

  // A random number below n, by xorshift.
  unsigned random_below(unsigned n) {
    random_bits ^= random_bits << 13;
    random_bits ^= random_bits >> 7;
    random_bits ^= random_bits << 17;
    return (random_bits >> 32) * n >> 32;
  }
};
static thread_local Machine* machine;
static Machine& first() {
  static thread_local Machine one;
  return one;
}
static unsigned count;
static std::function<void()> body;

// A fiber runs its thread of one block after the other: making one anew takes two system calls.
static void start() {
  for (;;) {
    body();
    Machine& m = *machine;
    Fiber& f = m.fibers[m.self];
    f.wait = DONE;
    if (!_setjmp(f.at)) _longjmp(m.home, 1);
  }
}

static void enter(Machine& m, unsigned i) {
  m.self = i;
  Fiber& f = m.fibers[i];
  threadIdx = f.index;
  if (_setjmp(m.home)) return;
  if (f.begun) _longjmp(f.at, 1);
  f.begun = true;
  getcontext(&f.context);
  f.context.uc_stack.ss_sp = f.stack.data();
  f.context.uc_stack.ss_size = f.stack.size();
  f.context.uc_link = nullptr;
  makecontext(&f.context, start, 0);
  setcontext(&f.context);
}

static void pause(Wait what) {
  Machine& m = *machine;
  Fiber& f = m.fibers[m.self];
  f.wait = what;
  if (!_setjmp(f.at)) _longjmp(m.home, 1);
}

static void run_block(Machine& m) {
  std::vector<Fiber>& fibers = m.fibers;
  for (unsigned i = 0; i < count; ++i) {
    Fiber& f = fibers[i];
    f.index = dim3{i % blockDim.x, i / blockDim.x % blockDim.y, i / (blockDim.x * blockDim.y)};
    f.wait = RUN;
    f.copies.clear();
    f.group = f.turn = 0;
  }
  std::vector<unsigned> order;
  for (;;) {
    order.clear();
    for (unsigned i = 0; i < count; ++i) if (fibers[i].wait == RUN) order.push_back(i);
    for (unsigned i = order.size(); i > 1; --i) std::swap(order[i - 1], order[m.random_below(i)]);
    bool ran = !order.empty(), alive = false;
    for (unsigned i : order) enter(m, i);
    bool all = true;
    for (unsigned w = 0; w < count; w += 32) {
      bool warp = true, some = false;
      for (unsigned i = w; i < count && i < w + 32; ++i) {
        Wait s = fibers[i].wait;
        if (s != DONE) alive = true;
        if (s != DONE && s != BLOCK) all = false;
        if (s != DONE && s != WARP) warp = false;
        if (s == WARP) some = true;
      }
      if (warp && some) {
        for (unsigned i = w; i < count && i < w + 32; ++i) if (fibers[i].wait == WARP) fibers[i].wait = RUN;
        ran = true;
      }
    }
    if (!alive) return;
    if (all) {
      for (unsigned i = 0; i < count; ++i) if (fibers[i].wait == BLOCK) fibers[i].wait = RUN;
      ran = true;
    }
    if (!ran) { std::fprintf(stderr, "threads of a block wait at different barriers\n"); std::abort(); }
  }
}

#define SHARED_GUARD 512  // bytes behind dynamic shared memory that no thread may write to

// Runs a kernel; whether a block wrote past its dynamic shared memory.
template <class F> int launch(const unsigned* grid, const unsigned* block, size_t shared, F&& f) {
  gridDim = dim3{grid[0], grid[1], grid[2]};
  blockDim = dim3{block[0], block[1], block[2]};
  count = blockDim.x * blockDim.y * blockDim.z;
  if (count == 0 || count > 1024) { std::fprintf(stderr, "a block of %u threads\n", count); std::abort(); }
  body = f;
  Machine& here = first();
  std::vector<unsigned> blocks(gridDim.x * gridDim.y * gridDim.z);
  for (unsigned i = 0; i < blocks.size(); ++i) blocks[i] = i;
  for (unsigned i = blocks.size(); i > 1; --i) std::swap(blocks[i - 1], blocks[here.random_below(i)]);
  std::atomic<unsigned> next(0);
  std::atomic<int> spoilt(0);
  auto work = [&](Machine& m) {
    machine = &m;
    if (m.fibers.size() < count) m.fibers.resize(count);
    for (auto& fiber : m.fibers) fiber.stack.resize(32768);
    for (unsigned k; (k = next++) < blocks.size();) {
      unsigned b = blocks[k];
      blockIdx = dim3{b % gridDim.x, b / gridDim.x % gridDim.y, b / (gridDim.x * gridDim.y)};
      m.dynamic_shared.assign((shared + SHARED_GUARD) / 8 + 1, std::nan("shared memory that was never written"));
      unsigned char* behind = reinterpret_cast<unsigned char*>(m.dynamic_shared.data()) + shared;
      std::memset(behind, 0x5A, SHARED_GUARD);
      run_block(m);
      for (unsigned k = 0; k < SHARED_GUARD; ++k) if (behind[k] != 0x5A) spoilt = 1;
    }
  };
  const char* asked = std::getenv("TWIN_THREADS");
  unsigned threads = asked ? std::atoi(asked) : 1;
  if (threads <= 1) {
    work(here);
    return spoilt;
  }
  std::vector<std::thread> pool;
  for (unsigned t = 0; t < threads; ++t) pool.emplace_back([&] { Machine own; work(own); });
  for (auto& thread : pool) thread.join();
  return spoilt;
}

static inline Fiber& current() { return machine->fibers[machine->self]; }

// Asynchronous copies: made when their group is waited for, in the order of groups.
static inline void copy_async(void* to, const void* from, size_t size) {
  Fiber& f = current();
  f.copies.push_back({to, from, size, f.group});
}
static inline void commit() { ++current().group; }
static inline void wait_but(int latest) {
  Fiber& f = current();
  std::vector<Copy> left;
  for (auto& c : f.copies)
    if (c.group < f.group - latest) std::memcpy(c.to, c.from, c.size); else left.push_back(c);
  f.copies.swap(left);
}

template <class T> uint64_t bits(T v) { uint64_t b = 0; std::memcpy(&b, &v, sizeof v); return b; }
// Shuffles use two rows of slots in turn, so that one wait is enough: nobody writes to a row again
// before all of the warp have come to the next shuffle, and so have read it.
template <class T> T shuffle(T v, unsigned source) {
  Machine& m = *machine;
  unsigned i = m.self;
  uint64_t* row = m.slots[m.fibers[i].turn ^= 1];
  row[i] = bits(v);
  pause(WARP);
  uint64_t b = row[i / 32 * 32 + source];
  T result;
  std::memcpy(&result, &b, sizeof result);
  return result;
}
}  // namespace twin

#define DYNAMIC_SHARED(T, name) T* name = reinterpret_cast<T*>(twin::machine->dynamic_shared.data())
static inline void __syncthreads() { twin::pause(twin::BLOCK); }
static inline void __syncwarp(unsigned = ~0u) { twin::pause(twin::WARP); }
static inline void __threadfence() {}
template <class T> T __shfl_down_sync(unsigned, T v, unsigned delta, int width = 32) {
  unsigned lane = twin::machine->self % 32;
  return twin::shuffle(v, lane % width + delta < (unsigned)width ? lane + delta : lane);
}
template <class T> T __shfl_xor_sync(unsigned, T v, int mask, int width = 32) {
  unsigned lane = twin::machine->self % 32, other = lane ^ mask;
  return twin::shuffle(v, other / width == lane / width ? other : lane);
}
template <class T> T __shfl_sync(unsigned, T v, int source, int width = 32) {
  unsigned lane = twin::machine->self % 32;
  return twin::shuffle(v, lane / width * width + source % width);
}
template <class T> T atomicAdd(T* p, T v) {
  std::atomic_ref<T> at(*p);
  T old = at.load();
  while (!at.compare_exchange_weak(old, old + v)) {}
  return old;
}
static inline unsigned atomicInc(unsigned* p, unsigned most) {
  std::atomic_ref<unsigned> at(*p);
  unsigned old = at.load();
  while (!at.compare_exchange_weak(old, old >= most ? 0 : old + 1)) {}
  return old;
}
template <class T> T __ldg(const T* p) { return *p; }
using std::abs;
