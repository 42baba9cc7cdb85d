# frozen_string_literal: true

# Makes the process's first IO::Buffer without warnings: Ruby passes buffers to hooked reads and
# writes, and warns that the class is experimental. For the scheduler and Async's selector.
if defined?(IO::Buffer)
  experimental = Warning[:experimental]
  begin
    Warning[:experimental] = false
    IO::Buffer.new(1).free
  ensure
    Warning[:experimental] = experimental
  end
end
