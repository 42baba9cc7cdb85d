# frozen_string_literal: true

# Gyre::Broadcast's methods until their first call, which loads the part: `gyre serve` loads some of
# its files before the app, so that the constant is there.

module Gyre
  module Broadcast
    module Unloaded
      %i[connect keep subscribe unsubscribe publish disconnect count].each do |name|
        define_method(name) do |*arguments, **options|
          require "gyre/broadcast"
          public_send(name, *arguments, **options)
        end
      end
    end
    extend Unloaded
    private_constant :Unloaded
  end
end
