# frozen_string_literal: true

# Loads layers 1 to 3: the loop, the scheduler, structured tasks, endpoints and listeners. Required
# by Gyre's own files; programs require "gyre".

require "gyre/version"
require "gyre/errors"
require "gyre/loop"
require "gyre/scheduler"
require "gyre/offload/blocking"
require "gyre/run"
require "gyre/inspection/hierarchy"
require "gyre/sync/barrier"
require "gyre/sync/channel"
require "gyre/sync/condition"
require "gyre/sync/limited_queue"
require "gyre/sync/priority_queue"
require "gyre/sync/promise"
require "gyre/sync/queue"
require "gyre/sync/semaphore"
require "gyre/signals"
require "gyre/net"
require "gyre/parts"

Gyre.extend(Gyre::Parts, Gyre::Parts.unloaded("gyre/profile", :profile))
