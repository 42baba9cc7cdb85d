# frozen_string_literal: true

# A Rack application that streams: a line, a moment, another line. Served by Falcon on Gyre's loop:
#
#   ruby -Ilib -rgyre/async -S falcon serve --count 1 --bind http://localhost:9292 --config examples/async/config.ru

run do |env|
  case env["PATH_INFO"]
  when "/stream"
    lines = Enumerator.new do |body|
      5.times { |number| body << "line #{number}, #{Fiber.scheduler.instance_variable_get(:@selector).class}\n".tap { sleep 0.05 } }
    end
    [200, { "content-type" => "text/plain" }, lines]
  when "/echo"
    [200, { "content-type" => "text/plain" }, [env["rack.input"].read.upcase]]
  else
    [200, { "content-type" => "text/plain" }, ["hello from #{Fiber.scheduler.class}\n"]]
  end
end
