# frozen_string_literal: true

# Standard input, byte by byte as in EventMachine: a program that closes the connection after a line
# finds the next one in $stdin. Made by EventMachine.open_keyboard.

module Gyre
  module EventMachine
    module Descriptors
      class Keyboard < Stream
        private

        def read_bytes = 1
      end
    end
  end
end
