# frozen_string_literal: true

# Lets `require "em/tick_loop"` succeed: the drop-in loads all parts at once.

require "eventmachine"
