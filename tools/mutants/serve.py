"""Mistakes in serve/."""

from .mutant import of

FAIR = "tests/serve/test_fair.py"
HOSTILE = "tests/serve/test_hostile.py"
OUTSIDE = "tests/serve/test_outside.py"
MUTANTS = [
    *of(
        "serve/limits.py",
        (f"{HOSTILE}::test_a_name_that_leads_into_a_private_network_is_refused",),
        ("one-public-address-will-do", "not all(map(is_public, addresses))", "not any(map(is_public, addresses))"),
    ),
    *of(
        "serve/limits.py",
        (f"{HOSTILE}::test_an_address_elsewhere_is_refused_before_anything_is_asked",),
        ("below-is-any-ending", "host.endswith(name[1:])", "host.endswith(name[2:])"),
        ("any-port", "(port is None if not wanted else str(port) == wanted)", "True"),
        ("any-scheme", 'if parts.scheme not in ("http", "https") or not host', "if not host"),
    ),
    *of(
        "serve/limits.py",
        (f"{HOSTILE}::test_a_redirect_to_another_host_takes_no_password_along",),
        ("the-password-goes-along", "                        login = None", "                        login = login"),
    ),
    *of(
        "serve/limits.py",
        (f"{HOSTILE}::test_what_is_no_raster_is_not_taken",),
        ("anything-is-a-raster", "    if sniff(head) is None:", "    if head is None:"),
    ),
    *of(
        "serve/queue.py",
        (f"{HOSTILE}::test_another_users_job_and_upload_are_not_there",),
        ("jobs-of-others", "if job is None or job.owner != owner:", "if job is None:"),
        (
            "lists-of-others",
            "in list(self._jobs.values()) if job.owner == owner]",
            "in list(self._jobs.values()) if job.owner]",
        ),
    ),
    *of(
        "serve/queue.py",
        (f"{HOSTILE}::test_one_user_cannot_take_the_queue",),
        ("one-job-more", "mine >= most:", "mine > most:"),
    ),
    *of(
        "serve/uploads.py",
        (f"{HOSTILE}::test_another_users_job_and_upload_are_not_there",),
        ("uploads-of-others", "if upload is None or upload.owner != owner:", "if upload is None:"),
    ),
    *of(
        "serve/guard.py",
        (f"{HOSTILE}::test_a_page_of_another_site_cannot_ask_in_the_users_name",),
        ("any-host", "_host_of(host).lower() not in LOOPBACK", "_host_of(host).lower() in ()"),
        ("any-origin", 'origin.partition("://")[2] != host', "origin == host"),
    ),
    *of(
        "serve/limits.py",
        (f"{OUTSIDE}::test_a_file_that_is_too_large_is_refused_before_it_is_read_whatever_it_is_for",),
        ("any-pixels", "if width * height > limits.pixels:", "if width * height < 0:"),
        ("any-bands", "if bands > limits.bands:", "if bands < 0:"),
    ),
    *of(
        "serve/inputs.py",
        (f"{OUTSIDE}::test_half_a_character_is_no_text",),
        ("half-characters", "json.dumps(found, ensure_ascii=False).encode()", "json.dumps(found).encode()"),
    ),
    *of(
        "serve/tiles.py",
        (f"{OUTSIDE}::test_nothing_is_shown_of_a_scene_beyond_the_limits",),
        ("anything-is-shown", '    check_source(source, sensor, Limits(**request["limits"]))', "    pass"),
    ),
    *of(
        "serve/processes.py",
        (f"{OUTSIDE}::test_a_result_is_sent_whole_while_its_job_is_removed",),
        ("the-file-is-opened-late", 'f"/dev/fd/{file.fileno()}", os', "str(files[output]), os"),
    ),
    *of(
        "serve/settings.py",
        ("tests/serve/test_serve_settings.py",),
        ("anyone-without-keys", "if self.keys is None and self.host not in LOOPBACK:", "if self.host is None:"),
        ("keys-of-two", "if keys.setdefault(digest, name) != name:", "if keys.setdefault(digest, name) is None:"),
        ("short-keys", "SHORTEST_KEY = 16", "SHORTEST_KEY = 4"),
    ),
    *of(
        "serve/models.py",
        ("tests/serve/test_serve_settings.py",),
        ("all-is-the-users", "restore_options().items() if option.served}", "restore_options().items()}"),
        ("machines-differ", 'told["enum"].remove("auto")', "pass"),
        ("null-is-a-kind", 'if one["type"] != "null"]', "]"),
        (
            "bounds-turned-round",
            '"minimum": option.share[0], "maximum": option.share[1]',
            '"minimum": option.share[1], "maximum": option.share[0]',
        ),
        ("one-reference", '16 if option.names == "scenes" else 1', "1"),
        ("the-default-of-python", "getattr(RestoreOptions().on_any_machine(), option.name)", "option.default"),
    ),
    *of(
        "serve/inputs.py",
        ("tests/serve/test_inputs.py",),
        ("any-share", "if not least <= value <= most:", "if not least <= value:"),
        ("the-least-is-too-little", "if not least <= value <= most:", "if not least < value <= most:"),
        ("any-mask", '(name == "radar" or value not in MASKS)', '(name == "radar")'),
        ("radar-by-name", '(name == "radar" or value not in MASKS)', "(value not in MASKS)"),
        ("endless-numbers", "and not math.isfinite(value)", "and math.isnan(value)"),
        ("any-length", "len(str(value)) > 2000", "len(str(value)) > 2_000_000"),
    ),
    *of(
        "serve/limits.py",
        (f"{HOSTILE}::test_an_address_elsewhere_is_refused_before_anything_is_asked",),
        ("below-is-the-name-itself", "host.endswith(name[1:]) and host != name[1:]", "host.endswith(name[1:])"),
    ),
    *of(
        "serve/queue.py",
        ("tests/serve/test_queue.py",),
        ("one-user-has-both", "for job in self.computed.values() if job.short} if short else ()", "for job in ()}"),
        ("turns-of-ended-jobs", "if not job.over and job.id in self._jobs:", "if job.id in self._jobs:"),
        (
            "unfinished-ones-are-old",
            "if job.over and (job.finished or 0) < before]",
            "if (job.finished or 0) < before]",
        ),
    ),
    *of(
        "serve/supervisor.py",
        ("tests/serve/test_supervisor.py",),
        ("one-death-more", "job.deaths >= MOST_DEATHS", "job.deaths > MOST_DEATHS"),
        ("late-ones-are-tried-again", "if late or job.deaths", "if job.deaths"),
        ("late-is-dead", 'kind = "TimeoutError" if late else "WorkerDied"', 'kind = "WorkerDied"'),
        ("one-try-more", "if tries > MOST_TRIES:", "if tries > MOST_TRIES + 1:"),
        ("begun-ones-first", "(self.store.tries(one.id), one.created)", "(-self.store.tries(one.id), one.created)"),
    ),
    *of(
        "serve/supervisor.py",
        (f"{FAIR}::test_a_short_job_does_not_wait_for_those_of_another_user",),
        ("long-ones-stay", "                job.short = False", "                pass"),
        ("no-core-is-spare", "cores() > settings.workers", "cores() < settings.workers"),
    ),
    *of(
        "serve/worker.py",
        (f"{OUTSIDE}::test_what_looked_short_is_given_back_where_it_has_many_values",),
        ("any-length-is-short", "values > SHORT_VALUES:", "values > SHORT_VALUES << 20:"),
        ("all-are-short", "if self.settings.short and values", "if values"),
    ),
    *of(
        "serve/pool.py",
        ("tests/serve/test_pool.py",),
        ("late-ones-live", "time.monotonic() - since > self._seconds", "since > self._seconds"),
        ("cancel-kills-neighbours", "if name in process.tasks and self._capacity == 1:", "if name in process.tasks:"),
        ("cancel-kills-anyone", "if name in process.tasks and self._capacity == 1:", "if self._capacity == 1:"),
        ("all-processes-at-once", "if len(self._processes) < self._most:", "if len(self._processes) < self._least:"),
        ("no-successor", "if not self._stopping.is_set() and len(self._processes) < self._least:", "if False:"),
        ("bytes-forgotten", "set_result(Reply(told, content))", "set_result(Reply(told, b''))"),
        ("outlives-the-server", "        os._exit(0)", "        pass"),
    ),
    *of(
        "serve/pool.py",
        ("tests/serve/test_pool.py::test_a_cancelled_task_that_ends_by_itself_in_time_takes_no_process_along",),
        (
            "no-time-to-end",
            "threading.Timer(seconds, self.cancel, (name,))",
            "threading.Timer(0, self.cancel, (name,))",
        ),
        ("time-without-end", "        timer.start()", "        pass"),
    ),
    *of(
        "serve/worker.py",
        ("tests/serve/test_supervisor.py::test_whoever_computes_a_job_hears_that_it_was_dismissed",),
        ("dismissed-in-vain", 'f"{work.id}.json").exists():', 'f"{work.id}.json").is_dir():'),
    ),
    *of(
        "serve/store.py",
        ("tests/serve/test_jobs.py::test_old_jobs_and_uploads_are_forgotten",),
        (
            "progress-stays",
            '        (self.root / PROGRESS / f"{job.id}.json").unlink(missing_ok=True)',
            "        pass",
        ),
    ),
    *of(
        "serve/clients.py",
        (f"{FAIR}::test_a_body_in_thousands_of_tiny_pieces_is_refused",),
        ("any-pieces", "if self._pieces > PIECES +", "if self._pieces < 0 and PIECES +"),
        ("large-pieces-too", "PIECES + self._bytes // SMALLEST", "PIECES"),
    ),
    *of(
        "serve/clients.py",
        (f"{FAIR}::test_what_is_no_http_after_an_answer_ends_the_connection",),
        ("no-http-is-a-failure", "except h11.LocalProtocolError:", "except ZeroDivisionError:"),
    ),
    *of(
        "serve/settings.py",
        ("tests/serve/test_serve_settings.py",),
        ("any-port-number", "if self.port >= 1 << 16:", "if self.port > 1 << 16:"),
    ),
    *of(
        "serve/processes.py",
        ("tests/serve/test_processes.py",),
        ("the-least-of-the-least", "max(least, default=0.0) <= seconds", "min(least, default=0.0) <= seconds"),
        ("the-most-of-the-most", "seconds <= min(most, default=seconds)", "seconds <= max(most, default=seconds)"),
        ("waiting-ones-last", "for job in jobs if job.started is not None]", "for job in jobs]"),
    ),
    *of(
        "serve/limits.py",
        ("tests/serve/test_hostile.py::test_a_redirect_to_another_host_takes_no_password_along",),
        ("password-goes-along", "if urlsplit(onward).netloc != urlsplit(at).netloc:", "if False:"),
    ),
    *of(
        "serve/turns.py",
        ("tests/serve/test_queue.py", f"{FAIR}::test_owners_have_so_many_at_once_and_others_pass"),
        (
            "the-same-user-again",
            "self._waiting[owner] = waiting  # behind the other owners",
            "self._waiting[owner] = waiting; self._waiting.move_to_end(owner, last=False)",
        ),
        ("one-more-at-once", "self._running[owner] < self._most and", "self._running[owner] <= self._most and"),
        ("turns-never-end", "        self._running[owner] -= 1", "        pass"),
        ("all-owners-may", " and owner not in without)", ")"),
        ("what-is-dropped-waits", "            waiting.remove(one)", "            pass"),
    ),
    *of(
        "serve/quota.py",
        (
            f"{FAIR}::test_a_file_with_two_names_counts_until_the_last_one_goes",
            f"{FAIR}::test_a_fetch_ends_with_its_job_and_leaves_nothing",
        ),
        ("one-byte-less", "if self._used[owner] + size > self._most:", "if self._used[owner] + size >= self._most:"),
        ("names-count-not", "if told.st_nlink == 1:", "if told.st_nlink:"),
        ("all-is-kept", "self._quota.give_back(self._owner, self.bytes - size)", "pass"),
        (
            "each-piece-in-full",
            "self._quota.take(self._owner, size - self.bytes)",
            "self._quota.take(self._owner, size)",
        ),
    ),
    *of(
        "serve/uploads.py",
        (f"{FAIR}::test_a_user_sends_so_many_files_at_once",),
        (
            "one-upload-more",
            "if self._coming[owner] >= self._limits.uploads:",
            "if self._coming[owner] > self._limits.uploads:",
        ),
        ("uploads-never-end", "            self._coming[owner] -= 1", "            pass"),
    ),
    *of(
        "serve/guard.py",
        (f"{FAIR}::test_a_user_has_so_many_requests_at_once",),
        ("one-request-more", "self._running[user] >= most", "self._running[user] > most"),
        ("requests-never-end", "            self._running[user] -= 1", "            pass"),
        ("nobody-is-somebody", "if user and self._running", "if self._running"),
    ),
    *of(
        "serve/clients.py",
        (
            f"{FAIR}::test_a_connection_has_ten_seconds_for_its_headers_and_thirty_to_take_a_byte",
            f"{FAIR}::test_who_is_answered_and_has_a_key_goes_last",
            f"{FAIR}::test_a_body_that_stalls_or_drips_is_refused_and_a_steady_one_is_not",
        ),
        ("bytes-count-not", "at = (id(one.cycle), waits, left)", "at = (id(one.cycle), waits)"),
        ("who-computes-goes", "and (waits or left):", "and True:"),
        ("keys-do-not-count", 'answered and bool(one.scope.get("user"))', "answered and False"),
        ("any-pace", "FIRST + self._came / SLOWEST:", "FIRST + self._came * SLOWEST:"),
    ),
    *of(
        "serve/worker.py",
        (f"{FAIR}::test_a_lack_of_memory_is_told_as_such",),
        ("torchs-words", "not any(words in outcome.message for words in _NO_MEMORY)", "True"),
    ),
    *of(
        "serve/processes.py",
        (f"{FAIR}::test_progress_never_goes_back",),
        ("progress-goes-back", "job.percent = max(percent, job.percent)", "job.percent = percent"),
    ),
    *of(
        "serve/tiles.py",
        ("tests/serve/test_serve_tiles.py",),
        ("the-rim-is-black", "(values[values != 0] if view.blank else values)", "(values)"),
        ("ndvi-of-numbers", "(nir, red), colours = values - view.zero,", "(nir, red), colours = values,"),
        ("ndvi-turned", "np.divide(nir - red, nir + red,", "np.divide(red - nir, nir + red,"),
        ("one-colour", 'bands = view.shown.get(kind, view.shown["true"])', 'bands = view.shown["true"]'),
    ),
]
