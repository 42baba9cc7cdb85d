# frozen_string_literal: true

# Found by a require of a part of EventMachine.

require "eventmachine"
