# frozen_string_literal: true

# LineProtocol: lines only.
require "gyre/event_machine/protocols/line_text2"

module Gyre
  module EventMachine
    module Protocols
      # Calls receive_line for each line.
      module LineProtocol
        include LineText2
      end
    end
  end
end
