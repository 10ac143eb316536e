// Built with -fsanitize=thread, every CUDA thread is a fiber that the sanitizer knows, and only
// what orders memory on a GPU orders it here: barriers and __syncwarp. So a missing one is reported
// as a data race even where the schedule happens to give the right values. Otherwise all of this is
// empty.
#pragma once

#if defined(__SANITIZE_THREAD__)
#include <sanitizer/tsan_interface.h>
extern "C" {
void AnnotateIgnoreReadsBegin(const char* file, int line);
void AnnotateIgnoreReadsEnd(const char* file, int line);
void AnnotateIgnoreWritesBegin(const char* file, int line);
void AnnotateIgnoreWritesEnd(const char* file, int line);
}
#endif

namespace cuda_emu::race {

#if defined(__SANITIZE_THREAD__)

// The emulator's own memory is not the kernel's: accesses while one of these lives do not count.
class Unwatched {
public:
    Unwatched() {
        AnnotateIgnoreReadsBegin("", 0);
        AnnotateIgnoreWritesBegin("", 0);
    }
    ~Unwatched() {
        AnnotateIgnoreWritesEnd("", 0);
        AnnotateIgnoreReadsEnd("", 0);
    }
    Unwatched(const Unwatched&) = delete;
    Unwatched& operator=(const Unwatched&) = delete;
};
inline void* make_fiber() {
    return __tsan_create_fiber(0);
}
inline void destroy_fiber(void* fiber) {
    __tsan_destroy_fiber(fiber);
}
inline void* this_fiber() {
    return __tsan_get_current_fiber();
}
inline void switch_to(void* fiber) {
    __tsan_switch_to_fiber(fiber, __tsan_switch_to_fiber_no_sync);
}
inline void release(void* token) {
    __tsan_release(token);
}
inline void acquire(void* token) {
    __tsan_acquire(token);
}

#else

class Unwatched {
public:
    Unwatched() {}
    ~Unwatched() {}
    Unwatched(const Unwatched&) = delete;
    Unwatched& operator=(const Unwatched&) = delete;
};
inline void* make_fiber() {
    return nullptr;
}
inline void destroy_fiber(void* /*fiber*/) {}
inline void* this_fiber() {
    return nullptr;
}
inline void switch_to(void* /*fiber*/) {}
inline void release(void* /*token*/) {}
inline void acquire(void* /*token*/) {}

#endif

}  // namespace cuda_emu::race
