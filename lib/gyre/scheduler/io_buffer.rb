# frozen_string_literal: true

# Makes the process's first IO::Buffer with warnings off. Ruby passes a buffer to each hooked read
# and write, and warns at the first that the class is experimental, though the program does not use
# it. Required by the scheduler and by Async's selector.
if defined?(IO::Buffer)
  experimental = Warning[:experimental]
  begin
    Warning[:experimental] = false
    IO::Buffer.new(1).free
  ensure
    Warning[:experimental] = experimental
  end
end
