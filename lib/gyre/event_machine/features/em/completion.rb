# frozen_string_literal: true

# Lets `require "em/completion"` succeed: the drop-in loads all parts at once.

require "eventmachine"
