// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
#include "event_loop.hpp"

#include <signal.h>
#include <sys/epoll.h>
#include <systemd/sd-event.h>

#include <ctime>
#include <utility>

namespace hairpin {

struct EventLoop::Source {
  Callback callback;
  sd_event_source* handle = nullptr;
  bool done = false;  // a timer that has fired

  explicit Source(Callback what) : callback{std::move(what)} {}
  Source(const Source&) = delete;
  Source& operator=(const Source&) = delete;
  ~Source() { sd_event_source_unref(handle); }
};

EventLoop::EventLoop(sd_event* loop) : loop_{loop} {}

EventLoop::EventLoop(EventLoop&& other) noexcept
    : loop_{std::exchange(other.loop_, nullptr)}, sources_{std::move(other.sources_)} {}

EventLoop& EventLoop::operator=(EventLoop&& other) noexcept {
  std::swap(loop_, other.loop_);
  std::swap(sources_, other.sources_);
  return *this;
}

EventLoop::~EventLoop() {
  sources_.clear();
  sd_event_unref(loop_);
}

Result<EventLoop> EventLoop::create() {
  sd_event* loop = nullptr;
  if (const int error = sd_event_new(&loop); error < 0) return fail(Error::system("start the event loop", error));
  EventLoop created{loop};
  if (const int error = sd_event_set_watchdog(loop, 1); error < 0) {
    return fail(Error::system("follow systemd's watchdog", error));
  }
  return created;
}

Result<void> EventLoop::on_readable(int fd, Callback callback) {
  auto source = std::make_unique<Source>(std::move(callback));
  const int error = sd_event_add_io(
      loop_, &source->handle, fd, EPOLLIN,
      [](sd_event_source*, int, std::uint32_t, void* data) {
        static_cast<Source*>(data)->callback();
        return 0;
      },
      source.get());
  if (error < 0) return fail(Error::system("watch a descriptor", error));
  sources_.push_back(std::move(source));
  return {};
}

Result<void> EventLoop::on_signal(int signal, Callback callback) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, signal);
  sigprocmask(SIG_BLOCK, &set, nullptr);
  auto source = std::make_unique<Source>(std::move(callback));
  const int error = sd_event_add_signal(
      loop_, &source->handle, signal,
      [](sd_event_source*, const signalfd_siginfo*, void* data) {
        static_cast<Source*>(data)->callback();
        return 0;
      },
      source.get());
  if (error < 0) return fail(Error::system("watch a signal", error));
  sources_.push_back(std::move(source));
  return {};
}

Result<void> EventLoop::after(std::chrono::milliseconds delay, Callback callback) {
  std::erase_if(sources_, [](const auto& source) { return source->done; });
  auto source = std::make_unique<Source>(std::move(callback));
  const auto microseconds = std::chrono::duration_cast<std::chrono::microseconds>(delay).count();
  const int error = sd_event_add_time_relative(
      loop_, &source->handle, CLOCK_MONOTONIC, static_cast<std::uint64_t>(microseconds), 0,
      [](sd_event_source*, std::uint64_t, void* data) {
        auto* timer = static_cast<Source*>(data);
        timer->callback();
        timer->done = true;
        return 0;
      },
      source.get());
  if (error < 0) return fail(Error::system("set a timer", error));
  sources_.push_back(std::move(source));
  return {};
}

Result<void> EventLoop::run() {
  if (const int error = sd_event_loop(loop_); error < 0) return fail(Error::system("run the event loop", error));
  return {};
}

void EventLoop::stop() { sd_event_exit(loop_, 0); }

}  // namespace hairpin
