# frozen_string_literal: true

# Which cases of the HTTP/1 contract are not run over HTTP/2, and why. A name that is no case's
# fails. No test itself.

module GyreTest
  module H2Contract
    # By contract: the reason, and the cases that are HTTP/1's own by it. What takes their place
    # over HTTP/2 is in test/http/h2.
    LEFT_OUT = {
      rack: {
        "a full hijack takes the connection, and a stream is none" =>
          %i[a_full_hijack_gives_the_socket_to_the_app a_hijacked_socket_has_what_the_client_sent_ahead
             a_hijacked_socket_outlives_the_request an_app_that_raises_after_a_hijack_is_reported],
        "Transfer-Encoding is HTTP/1's" =>
          %i[chunks_of_the_apps_own_are_passed_on a_framing_of_the_apps_own_that_cannot_be_is_refused_aloud
             an_each_body_is_chunked_and_each_part_leaves_at_once a_streaming_body_reads_and_writes_at_the_same_time
             the_framing_is_the_servers_and_connection_too a_partial_hijack_gets_the_socket_after_the_head],
        "Upgrade and CONNECT take HTTP/1's connection" =>
          %i[rack_protocol_upgrades_the_connection connect_becomes_a_tunnel a_2xx_to_connect_has_no_framing_whatever_the_body_is
             a_rack_protocol_that_was_not_offered_is_a_500 an_app_may_refuse_an_upgrade],
        "the heads are HTTP/1's bytes" =>
          %i[the_access_log_has_refused_heads_once_each_with_what_is_known_of_them the_access_log_has_a_refused_head_behind_other_requests
             a_refused_head_request_gets_no_body]
      },
      admission: {
        "responses to pipelined requests have an order" => %i[a_pipelined_request_waits_behind_those_of_other_connections],
        "the heads are HTTP/1's bytes" => %i[the_body_of_a_waiting_request_may_come_before_or_after_its_turn],
        "the last chunk is HTTP/1's" => %i[responses_without_an_end_hold_no_place]
      },
      slow_clients: {},
      departures: {
        "a server of HTTP/2 sends settings meanwhile" => %i[the_time_of_waiting_for_the_client_does_not_count],
        "pipelined requests would run" => %i[a_client_that_resets_is_gone_also_behind_pipelined_bytes],
        "chunks are HTTP/1's" =>
          %i[a_response_that_has_begun_is_cut_when_its_time_is_over
             the_time_does_not_count_for_streams_without_an_end_and_for_what_comes_after_the_response]
      },
      faults: {
        "a full hijack takes the connection, and a stream is none" => %i[no_second_head_is_sent_when_the_conversion_of_a_status_sends_one],
        "the requests are HTTP/1's bytes" =>
          %i[an_exception_that_comes_while_a_handler_gives_control_back_is_not_swallowed
             a_write_that_was_interrupted_in_the_middle_is_followed_by_nothing a_fast_client_waits_for_a_slow_app
             a_body_that_is_cut_off_is_an_eof_error_to_the_app_and_a_400_to_the_client
             a_client_that_half_closes_gets_its_response_although_its_body_is_not_read
             a_client_that_goes_away_between_or_in_requests_leaves_nothing close_ends_every_connection_at_once
             draining_closes_what_is_idle_and_lets_the_rest_finish draining_serves_requests_that_have_arrived_and_not_been_read
             it_works_with_the_collector_at_every_allocation it_works_when_objects_move
             a_stop_takes_what_waits_to_be_accepted a_new_connection_whose_request_is_on_its_way_gets_its_response_at_a_stop],
        "chunks and cut connections are HTTP/1's" =>
          %i[an_app_that_raises_in_its_body_cuts_the_response_so_that_the_client_sees_it a_body_longer_than_its_content_length_is_cut_there],
        "the client would have to write and to read in two threads" =>
          %i[a_large_stream_goes_both_ways_in_little_memory draining_right_behind_a_response_serves_the_next_request]
      },
      limits: {
        "the requests are HTTP/1's bytes" =>
          %i[a_line_without_end_is_refused_at_its_limit a_chunk_that_stops_gets_408 a_connection_that_says_nothing_gets_408
             a_head_that_comes_too_slowly_gets_408_however_steadily_it_comes the_time_for_a_head_begins_again_with_each_request
             heads_that_come_in_part_have_so_much_memory_in_all a_client_that_does_not_close_after_a_refusal_is_closed
             pipelined_requests_beyond_the_limit_do_not_destroy_the_last_response],
        "an HTTP/2 request's host is no field that is counted" => %i[headers_beyond_their_number_or_size_get_431],
        "in HTTP/2 the stream ends, and the connection goes on" =>
          %i[a_client_that_takes_nothing_is_dropped what_an_app_left_unread_is_waited_for_for_a_while_only],
        "in HTTP/2 GOAWAY has the last request" => %i[a_connection_serves_so_many_requests_and_says_which_is_the_last],
        "the 503 to a connection too many comes before its client has begun, in HTTP/1" => %i[a_connection_too_many_gets_503]
      },
      messages: {
        "versions are HTTP/1's" =>
          %i[http_1_0_closes_after_the_response http_1_0_with_keep_alive_goes_on_and_says_so
             http_1_0_gets_a_streamed_body_without_chunks_up_to_the_end a_1_0_request_without_host_has_the_sockets_own_name
             a_unix_socket_serves_too],
        "the end of an HTTP/1 connection is told by a field" =>
          %i[an_app_may_ask_for_the_end_of_the_connection connection_close_is_honoured_and_said an_app_may_refuse_before_the_body_is_sent
             a_large_body_that_the_app_left_ends_the_connection_and_the_client_sees_the_response],
        "chunks are HTTP/1's" =>
          %i[an_endless_chunked_body_that_the_app_left_ends_the_connection malformed_chunks_end_the_connection_after_a_400
             only_chunked_requests_have_trailers],
        "the requests are HTTP/1's bytes" =>
          %i[malformed_requests_are_refused_and_end_their_connection_only a_malformed_request_after_good_ones_is_refused_after_their_responses
             requests_may_be_split_anywhere pipelined_requests_with_bodies_of_both_kinds_keep_their_borders
             pipelined_requests_get_their_responses_in_order a_field_name_with_an_underscore_is_left_out one_empty_line_before_a_request_is_skipped
             no_continue_is_sent_when_the_body_has_come_already curl_agrees],
        "an HTTP/2 request's target is in several fields" => %i[targets_of_each_form]
      },
      threads: {
        "a full hijack takes the connection, and a stream is none" =>
          %i[the_socket_is_hijacked_in_another_thread a_fiber_that_waits_for_a_body_is_the_only_one_that_reads_it
             reset_and_close_from_another_thread_end_the_connection what_is_kept_of_an_ended_request_raises_and_the_next_one_is_whole],
        "malformed chunks are HTTP/1's" => %i[errors_of_a_body_come_up_in_the_thread_that_reads]
      }
    }.freeze
  end
end
