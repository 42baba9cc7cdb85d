# frozen_string_literal: true

# Makes the process's first IO::Buffer while warnings are off, as Ruby warns that the class is
# experimental. Ruby passes such buffers to the hooks for reads and writes. Required by the
# scheduler and Async's selector.
if defined?(IO::Buffer)
  experimental = Warning[:experimental]
  begin
    Warning[:experimental] = false
    IO::Buffer.new(1).free
  ensure
    Warning[:experimental] = experimental
  end
end
