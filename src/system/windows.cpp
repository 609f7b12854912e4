#include "system/windows.hpp"

#if defined(_WIN32)

#if !defined(NOMINMAX)  // libstdc++ does
#define NOMINMAX
#endif
#define WIN32_LEAN_AND_MEAN
#include <windows.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <string>

#include "timing_wheel/detail/waiting.hpp"

namespace timing_wheel::detail {

namespace {

void* address_of(const void* word) noexcept { return const_cast<void*>(word); }

}  // namespace

void wait_on_address(const void* word, const void* value, std::size_t size) noexcept {
  WaitOnAddress(address_of(word), address_of(value), size, INFINITE);
}
void notify_one_on_address(const void* word) noexcept { WakeByAddressSingle(address_of(word)); }
void notify_all_on_address(const void* word) noexcept { WakeByAddressAll(address_of(word)); }

#if defined(TIMING_WHEEL_HAS_WINDOWS)

namespace windows {

namespace {

/// A function that not each Windows has. Null if this one has not.
template <class Function>
Function* function_of(const wchar_t* library, const char* name) noexcept {
  const HMODULE loaded = GetModuleHandleW(library);
  return loaded == nullptr ? nullptr : std::bit_cast<Function*>(GetProcAddress(loaded, name));
}

void* make_timer() noexcept {
  constexpr DWORD high_resolution = 0x2;  // CREATE_WAITABLE_TIMER_HIGH_RESOLUTION, which older headers lack
  HANDLE made = CreateWaitableTimerExW(nullptr, nullptr, high_resolution, TIMER_ALL_ACCESS);
  return made != nullptr ? made : CreateWaitableTimerExW(nullptr, nullptr, 0, TIMER_ALL_ACCESS);
}

}  // namespace

bool pass_process_barrier() noexcept {
  static const bool is_wine = function_of<void()>(L"ntdll.dll", "wine_get_version") != nullptr;
  if (!is_wine) {
    FlushProcessWriteBuffers();
  }
  return !is_wine;
}

void name_this_thread(const char* name) noexcept {
  static const auto give = function_of<HRESULT WINAPI(HANDLE, PCWSTR)>(L"kernelbase.dll", "SetThreadDescription");
  if (give != nullptr) {
    std::array<wchar_t, 16> wide{};
    std::copy_n(name, std::min(std::char_traits<char>::length(name), wide.size() - 1), wide.begin());
    give(GetCurrentThread(), wide.data());
  }
}

void* map(std::size_t size, std::size_t room) noexcept {
  void* const made = VirtualAlloc(nullptr, room, MEM_RESERVE, PAGE_READWRITE);
  if (made != nullptr && VirtualAlloc(made, size, MEM_COMMIT, PAGE_READWRITE) == nullptr) {
    unmap(made, size);
    return nullptr;
  }
  return made;
}

// Behind its own room there may be that of somebody else.
bool extend(void* begin, std::size_t old_size, std::size_t size) noexcept {
  char* const end = static_cast<char*>(begin) + old_size;
  MEMORY_BASIC_INFORMATION behind{};
  return VirtualQuery(end, &behind, sizeof(behind)) != 0 && behind.AllocationBase == begin &&
         behind.State == MEM_RESERVE && behind.RegionSize >= size - old_size &&
         VirtualAlloc(end, size - old_size, MEM_COMMIT, PAGE_READWRITE) != nullptr;
}

bool unmap(void* begin, std::size_t size) noexcept {
  MEMORY_BASIC_INFORMATION found{};
  const bool whole = VirtualQuery(begin, &found, sizeof(found)) != 0 && found.AllocationBase == begin;
  return (whole ? VirtualFree(begin, 0, MEM_RELEASE) : VirtualFree(begin, size, MEM_DECOMMIT)) != 0;
}

bool discard(void* begin, std::size_t size) noexcept {
  return VirtualAlloc(begin, size, MEM_RESET, PAGE_READWRITE) != nullptr;
}

condition_of_one::~condition_of_one() {
  for (void* const handle : {event_.load(std::memory_order_relaxed), timer_}) {
    if (handle != nullptr) {
      CloseHandle(handle);
    }
  }
}

void condition_of_one::notify_one() noexcept {
  if (void* const event = event_.load(std::memory_order_relaxed); event != nullptr) {
    SetEvent(event);
  }
}

void condition_of_one::sleep(std::unique_lock<std::mutex>& lock, std::chrono::nanoseconds at_most) noexcept {
  void* event = event_.load(std::memory_order_relaxed);
  if (event == nullptr) {
    event = CreateEventW(nullptr, FALSE, FALSE, nullptr);
    event_.store(event, std::memory_order_relaxed);
  }
  if (timer_ == nullptr) {
    timer_ = make_timer();
  }
  const bool for_ever = at_most == std::chrono::nanoseconds::max();
  LARGE_INTEGER end;  // in 100 ns, negative if it is from now on
  end.QuadPart = -(at_most.count() / 100 + 1);
  lock.unlock();
  if (event == nullptr || timer_ == nullptr ||
      (!for_ever && SetWaitableTimer(timer_, &end, 0, nullptr, nullptr, FALSE) == 0)) {
    Sleep(1);
  } else {
    const std::array<HANDLE, 2> either{event, timer_};
    WaitForMultipleObjects(for_ever ? 1 : 2, either.data(), FALSE, INFINITE);
  }
  lock.lock();
}

}  // namespace windows

#endif

}  // namespace timing_wheel::detail

#endif
