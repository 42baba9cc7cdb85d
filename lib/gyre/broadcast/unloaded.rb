# frozen_string_literal: true

# Gyre::Broadcast's methods until their first call, which loads the part: `gyre serve` loads some of
# its files before the app, so that the constant is there.

require "gyre/parts"

module Gyre
  module Broadcast
    extend Parts.unloaded("gyre/broadcast", :connect, :keep, :subscribe, :unsubscribe, :publish, :disconnect, :count)
  end
end
