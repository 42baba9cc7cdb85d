# frozen_string_literal: true

# Shortens the turns for which a computing thread keeps the GVL. Used by the pool, the command
# `gyre` and the handler of rackup.

module Gyre
  module Offload
    # Thread#priority of the pool's threads and of servers; new threads inherit it. A busy loop
    # never releases the GVL, so that work in a thread would wait for two whole turns: one before
    # it, one after its blocking call. Ruby ends a turn after 100 ms at priority 0, after 20 ms at
    # this one (since Ruby 3.3).
    PRIORITY = -3
  end
end
