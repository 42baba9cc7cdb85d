# frozen_string_literal: true

# What the commands of `gyre` raise when they cannot do what was asked. Gyre::CLI prints the message
# and ends with the status that belongs to the error; nothing here prints or exits.

require "gyre/errors"

module Gyre
  # The command line cannot be understood; the message is for its author. Exit status 2.
  class UsageError < Error; end

  # A command cannot begin, or go on; the message has what to do, in as many lines as it takes. Exit
  # status 1.
  class StartError < Error; end
end
