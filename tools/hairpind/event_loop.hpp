// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <vector>

#include "hairpin/result.hpp"

struct sd_event;
struct sd_event_source;

namespace hairpin {

/// libsystemd's event loop with callbacks as std::function. Owns the loop and every source added to it; the callbacks
/// run on the thread that calls run(), one at a time.
class EventLoop {
 public:
  using Callback = std::function<void()>;

  static Result<EventLoop> create();

  EventLoop(EventLoop&&) noexcept;
  EventLoop& operator=(EventLoop&&) noexcept;
  ~EventLoop();

  /// Calls back whenever the descriptor is readable. The caller keeps the descriptor open and drains it.
  Result<void> on_readable(int fd, Callback callback);

  /// Calls back when the signal arrives; blocks it for ordinary delivery.
  Result<void> on_signal(int signal, Callback callback);

  /// Calls back once, `delay` from now.
  Result<void> after(std::chrono::milliseconds delay, Callback callback);

  /// Runs until stop(), and feeds systemd's watchdog where one is set.
  Result<void> run();
  void stop();

 private:
  struct Source;

  explicit EventLoop(sd_event* loop);

  sd_event* loop_ = nullptr;
  std::vector<std::unique_ptr<Source>> sources_;
};

}  // namespace hairpin
