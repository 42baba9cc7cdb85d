# frozen_string_literal: true

# Lets `require "em/threaded_resource"` succeed: the drop-in loads all parts at once.

require "eventmachine"
