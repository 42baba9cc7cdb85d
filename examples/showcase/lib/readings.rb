# frozen_string_literal: true

# A million rows of CSV, made while they are sent, at the visitor's speed. So the server's memory
# stays small, however long the table. Its length is unknown, so it is chunked.

module Showcase
  # Made-up readings of six weather stations.
  class Readings
    ROWS = 1_000_000
    ROWS_IN_A_PIECE = 250 # about 5 KB, made in a quarter of a millisecond
    STATIONS = %w[Lisbon Bergen Kraków Naxos Tromsø Galway].freeze

    HEADERS = {
      "content-type" => "text/csv; charset=utf-8; header=present",
      "content-disposition" => 'attachment; filename="readings.csv"',
      "cache-control" => "no-store"
    }.freeze

    def call(env)
      [200, HEADERS.dup, Enumerator.new { |body| write_table(body, env["rack.logger"]) }]
    end

    private

    def write_table(body, log)
      body << "reading,station,celsius,humidity\n"
      1.step(ROWS, ROWS_IN_A_PIECE) do |first|
        body << rows(first, first + ROWS_IN_A_PIECE - 1)
        sleep 0 # making rows is work, not waiting: yields between two pieces
      end
      log&.info("#{ROWS} rows of readings were sent")
    end

    def rows(first, last)
      piece = +""
      first.upto(last) do |row|
        piece << "#{row},#{STATIONS[row % 6]},#{((row * 7919 % 401) - 100) / 10.0},#{30 + (row * 104_729 % 61)}\n"
      end
      piece
    end
  end
end
