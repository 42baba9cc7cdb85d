# frozen_string_literal: true

# `require "eventmachine"` with this folder in the load path: Gyre's under the gem's name. `gyre em`
# and the stub gem put it there.

require "gyre/event_machine"

EventMachine = Gyre::EventMachine
EM = EventMachine
BufferedTokenizer = EventMachine::BufferedTokenizer
