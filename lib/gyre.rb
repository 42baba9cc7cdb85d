# frozen_string_literal: true

# `require "gyre"`: the loop, the scheduler, structured tasks, and where to listen (layers 1 to 3). The server is
# `require "gyre/web"`. Every part can be required by itself, too.

require "gyre/version"
require "gyre/errors"
require "gyre/loop"
require "gyre/scheduler"
require "gyre/run"
require "gyre/hierarchy"
require "gyre/barrier"
require "gyre/channel"
require "gyre/condition"
require "gyre/limited_queue"
require "gyre/priority_queue"
require "gyre/promise"
require "gyre/queue"
require "gyre/semaphore"
require "gyre/signals"
require "gyre/endpoint"
require "gyre/listener"
