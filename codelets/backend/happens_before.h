// Tells ThreadSanitizer what StarPU guarantees: who holds a data handle comes after whoever held it before.
//
// StarPU's library is not instrumented and its spin locks are its own, so the sanitizer cannot see the order that they
// make, and would report each buffer that passes from one task to the next. Nothing else is hidden from it.
#pragma once

#ifdef __SANITIZE_THREAD__
extern "C" {
void __tsan_acquire(void* address);
void __tsan_release(void* address);
}
#endif

namespace prorata {

// Around the access to what the handle protects, by whoever holds it. `address` stands for the handle.
class HandleHeld {
 public:
#ifdef __SANITIZE_THREAD__
  explicit HandleHeld(const void* address) : address_(const_cast<void*>(address)) { __tsan_acquire(address_); }
  ~HandleHeld() { __tsan_release(address_); }

 private:
  void* address_;
#else
  explicit HandleHeld(const void*) {}
  ~HandleHeld() {}
#endif

 public:
  HandleHeld(const HandleHeld&) = delete;
  HandleHeld& operator=(const HandleHeld&) = delete;
};

}  // namespace prorata
