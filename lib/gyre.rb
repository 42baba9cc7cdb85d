# frozen_string_literal: true

# Loads layers 1 to 3, and in a Rails application the Railtie. Gyre's own files require gyre/core,
# so that an application's `require "gyre"` finds Rails also in `gyre serve`. The other parts load
# when a program first names them (Gyre::Parts); each can also be required alone.

require "gyre/core"
require "gyre/rails" if defined?(Rails::Railtie)
