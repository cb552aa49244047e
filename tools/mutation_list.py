"""The faults that `tools.mutations` puts into the code: realistic slips, chosen by reading it and before trying any.

A snippet is found by its content, in whichever file of `demo/` or `app.py` it stands, so that code may move. Where
code was rewritten a fault has a snippet for each spelling: the first that is found counts.
"""

from __future__ import annotations

from dataclasses import dataclass

ROOMS = ("core", "backend", "store", "runs", "present", "sweep", "ui", "cli")


@dataclass(frozen=True)
class Mutation:
    room: str
    fault: str
    """What the program then does wrong, in one line."""
    swaps: tuple[tuple[str, str], ...]
    """Each a snippet of source and what takes its place."""
    tests: str
    """Test files that run first: below tests/, without '.py', a space between; of 'new|old' the one that is there."""
    only: str = ""
    """pytest's -k for those files; without it all their tests run."""


def _one(
    room: str, fault: str, old: str, new: str, tests: str, only: str = "", also: tuple[tuple[str, str], ...] = ()
) -> Mutation:
    """`also` are further spellings of (old, new)."""
    return Mutation(room, fault, ((old, new), *also), tests, only)


MUTATIONS = (
    # ---- core
    _one(
        "core",
        "the interval uses the normal distribution instead of Student's t",
        "return _interval(mean, error * t_quantile(freedom))",
        "return _interval(mean, error * 1.959964)",
        "core/test_stats|test_stats",
    ),
    _one(
        "core",
        "the A/A control is compared with the block before it instead of the two halves around it",
        "block_medians(eager[calls // 2 :], calls)",
        "block_medians(eager, calls)",
        "core/test_stats|test_stats",
    ),
    _one(
        "core",
        "an error's text keeps the folders of this machine",
        '_PATH.sub(lambda path: path[1] or "…", text)',
        "_PATH.sub(lambda path: path[0], text)",
        "core/test_format|test_format test_hostile",
        "folder or path",
    ),
    _one(
        "core",
        "a photograph taken upright on a phone (EXIF orientation 6) is turned the wrong way",
        "6: Image.Transpose.ROTATE_270,",
        "6: Image.Transpose.ROTATE_90,",
        "core/test_images|test_images",
        "rotated or upright",
    ),
    _one(
        "core",
        "the bounds of the break-even are swapped: the later one is called the earliest",
        "needed, calls(interval.high), calls(interval.low),",
        "needed, calls(interval.low), calls(interval.high),",
        "core/test_result|core/test_schema|test_schema",
    ),
    _one(
        "core",
        "a whole request counts preprocessing and postprocessing of one picture only, whatever the batch",
        "parts.copy_seconds + batch * (parts.preprocess_seconds + parts.postprocess_seconds)",
        "parts.copy_seconds + parts.preprocess_seconds + parts.postprocess_seconds",
        "core/test_result|core/test_schema|test_schema",
    ),
    _one(
        "core",
        "on a Space a visitor may run any model of the Hub without the owner's leave",
        "_switch(environment, HUB_IDS_VARIABLE, default=not strangers)",
        "_switch(environment, HUB_IDS_VARIABLE, default=True)",
        "test_hostile",
        "space or limit",
    ),
    # ---- backend
    _one(
        "backend",
        "warm-up ends while calls still compile",
        "if quiet >= 3 and max(last) <= min(last) * (1 + SETTLED):",
        "if max(last) <= min(last) * (1 + SETTLED):",
        "backend/test_timing|test_timing",
        also=(
            (
                "if without_compiling >= 3 and max(last) <= min(last) * (1 + SETTLED):",
                "if max(last) <= min(last) * (1 + SETTLED):",
            ),
        ),
    ),
    _one(
        "backend",
        "blocks are timed A B A B instead of A B B A, so drift no longer cancels",
        "run(compiled, samples.compiled, half)\n            run(eager, samples.eager, half)",
        "run(eager, samples.eager, half)\n            run(compiled, samples.compiled, half)",
        "backend/test_timing|test_timing",
    ),
    _one(
        "backend",
        "a first call that found half of its graphs in the cache is called warm",
        'return "cold" if misses else "warm"',
        'return "warm" if hits else "cold"',
        "backend/test_compilation|test_compilation",
    ),
    _one(
        "backend",
        "outputs are kept without a copy: a CUDA graph's next call overwrites them",
        "torch.utils._pytree.tree_map_only(torch.Tensor, torch.clone, outputs)",
        "outputs",
        "backend/test_compilation|test_compilation backend/test_run|test_worker",
        "overwritten or fit_in_memory",
    ),
    _one(
        "backend",
        "against the float64 reference eager's error is judged by compiled's instead of the other way round",
        "own, compiled_error = _rmse(mine, true), _rmse(other, true)",
        "own, compiled_error = _rmse(other, true), _rmse(mine, true)",
        "backend/test_parity|test_parity",
    ),
    _one(
        "backend",
        "out of memory at batch size 2 proposes a batch size of 0",
        "smaller = max(1, spec.batch_size // 4)",
        "smaller = spec.batch_size // 4",
        "backend/test_failures|test_worker",
        "remedy or memory",
    ),
    _one(
        "backend",
        "the run's own processor time counts as that of other programs",
        "min(1.0, max(0.0, (busy - own) / total))",
        "min(1.0, max(0.0, busy / total))",
        "backend/test_monitor|test_state",
    ),
    _one(
        "backend",
        "boxes are scaled to width x height instead of height x width",
        "target_sizes=[(image.height, image.width)]",
        "target_sizes=[(image.width, image.height)]",
        "backend/test_predictions|test_predictions",
        "boxes",
    ),
    # ---- store
    _one(
        "store",
        "a compile cost is borrowed from a run with another transformers",
        "if earlier.environment is None or earlier.environment.transformers != like.environment.transformers:",
        "if earlier.environment is None:",
        "store/test_history|test_history",
    ),
    _one(
        "store",
        "a deleted result stays readable in the log beside the file",
        'database.execute("PRAGMA wal_checkpoint(TRUNCATE)")',
        "pass",
        "store/test_history|test_history",
        "delete",
    ),
    _one(
        "store",
        "a search takes the runs that hold any of its words instead of all",
        'condition = " AND ".join(',
        'condition = " OR ".join(',
        "store/test_search|test_history",
        "search",
        also=(('return " AND ".join(terms)', 'return " OR ".join(terms)'),),
    ),
    _one(
        "store",
        "a cell of a CSV that begins with @ is a formula to a spreadsheet",
        r"[=+\-@＝＋－＠]",
        r"[=+\-＝＋－＠]",
        "store/test_csv_text|test_csv_text",
    ),
    _one(
        "store",
        "an export gives calls per second as images per second",
        "return result.spec.batch_size / seconds if seconds is not None else None",
        "return 1 / seconds if seconds is not None else None",
        "store/test_export|test_export",
        "column",
    ),
    _one(
        "store",
        "a run under way is not locked: another app takes it for lost",
        "fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)\n            rest =",
        "rest =",
        "store/test_history|test_history test_faults",
        "interrupted or another_app or going_on",
    ),
    _one(
        "store",
        "a measured table keeps one row for all settings of a checkpoint and batch size",
        'for column in ("checkpoint", "batch_size", "subset"))',
        'for column in ("checkpoint", "batch_size"))',
        "store/test_measured|test_measured sweep/test_table|test_sweep",
        "measured",
    ),
    # ---- runs
    _one(
        "runs",
        "on a Space a worker is given tokens whose names begin like a needed variable",
        "NEEDED.fullmatch(name) and not SECRETS.search(name)",
        "NEEDED.fullmatch(name)",
        "test_faults",
        "space_a_worker_gets",
    ),
    _one(
        "runs",
        "ending a worker leaves the processes that it has started",
        "os.killpg(self._process.pid, signal.SIGKILL)",
        "os.kill(self._process.pid, signal.SIGKILL)",
        "runs/test_runner|test_runner test_faults",
        "cancel_kills or left_over or lifeline_is_gone",
        also=(("os.killpg(process.pid, signal.SIGKILL)", "os.kill(process.pid, signal.SIGKILL)"),),
    ),
    _one(
        "runs",
        "warnings of a result keep the folders of this machine",
        "warnings=tuple(map(fmt.for_a_stranger, result.warnings))",
        "warnings=result.warnings",
        "runs/test_runner|test_runner test_faults",
        "folders_nor or warnings",
        (("warnings=tuple(map(fmt.redact, result.warnings))", "warnings=result.warnings"),),
    ),
    _one(
        "runs",
        "between two messages of the worker the time left falls by the time of the whole run",
        "remaining -= elapsed - self.told_at",
        "remaining -= elapsed",
        "runs/test_runner|test_runner",
        "time_left",
        also=(("remaining -= elapsed - self.progress_at", "remaining -= elapsed"),),
    ),
    _one(
        "runs",
        "cancel is looked at only where the worker says nothing",
        "elif cancel is not None and cancel.is_set():",
        "elif event is None and cancel is not None and cancel.is_set():",
        "runs/test_runner|test_runner",
        "cancel",
        also=(
            (
                "cancel.is_set():\n                    return run.cancelled()",
                "cancel.is_set() and event is None:\n                    return run.cancelled()",
            ),
        ),
    ),
    _one(
        "runs",
        "the form says 'will not fit' where only the upper end of the range is above the memory",
        "if expected.memory_bytes.low > memory:",
        "if expected.memory_bytes.high > memory:",
        "runs/test_forecast|test_forecast",
    ),
    _one(
        "runs",
        "a worker killed for want of memory is not told to try a smaller batch",
        "if code == -signal.SIGKILL:",
        "if code == signal.SIGKILL:",
        "runs/test_runner|test_runner test_faults",
        "a_worker_that_breaks or killed_for_want or page_shows or smaller_batch",
    ),
    # ---- present
    _one(
        "present",
        "the interval of a slow-down is told with its ends swapped",
        "low, high = (1 / speedup.high, 1 / speedup.low) if slower else (speedup.low, speedup.high)\n"
        '    return _interval("interval_slowdown"',
        "low, high = (1 / speedup.low, 1 / speedup.high) if slower else (speedup.low, speedup.high)\n"
        '    return _interval("interval_slowdown"',
        "present/test_sentences|test_words",
    ),
    _one(
        "present",
        "a run that waits for launches is called limited by the GPU, and the other way round",
        '"launch_bound" if eager.busy_share < LAUNCH_BOUND else "gpu_bound"',
        '"launch_bound" if eager.busy_share > LAUNCH_BOUND else "gpu_bound"',
        "present/test_details|present/test_sentences|test_words backend/test_profiling|test_profile",
    ),
    _one(
        "present",
        "in the chart of the break-even compiled starts without the seconds of its first call",
        "y=[costs.get(name, 0.0) * scale, end * scale]",
        "y=[0.0, end * scale]",
        "present/test_charts|test_charts ui/html/test_sections|test_sections",
    ),
    _one(
        "present",
        "boxes on a picture that is not square are drawn too high or too low",
        "value * (bottom - top) / info.height for value in box.box[1::2]",
        "value * (bottom - top) / info.width for value in box.box[1::2]",
        "present/test_drawing|test_drawing",
    ),
    _one(
        "present",
        "the picture of the differences calls eager's boxes compiled's",
        '[("eager", box) for box in alone] + [("compiled", box) for box in alone_too]',
        '[("compiled", box) for box in alone] + [("eager", box) for box in alone_too]',
        "present/test_drawing|test_drawing",
        also=(
            (
                '[("eager", box) for box in only_ours] + [("compiled", box) for box in only_theirs]',
                '[("compiled", box) for box in only_ours] + [("eager", box) for box in only_theirs]',
            ),
        ),
    ),
    _one(
        "present",
        "the script of a run with channels last measures without it",
        '", memory_format=torch.channels_last" if spec.channels_last else ""',
        '""',
        "present/test_script|test_script",
        "channels or memory_format or setting or spec",
    ),
    _one(
        "present",
        "in a Markdown table a | in a name begins a new cell",
        r"""r"([\\`*_{}\[\]<>|#~])", r"\\\1",""",
        r"""r"([\\`*_{}\[\]<>#~])", r"\\\1",""",
        "ui/html/test_takeaway|test_takeaway",
        "markdown or table",
    ),
    # ---- sweep
    _one(
        "sweep",
        "a result on another picture answers for a cell",
        "and result.image and result.image.sha256 == digest:",
        "and result.image:",
        "sweep/test_cells|sweep/test_grid|test_sweep",
        "stored_result or answer",
    ),
    _one(
        "sweep",
        "a cell whose worker crashed is never tried again",
        'FINAL = ("ok", "out_of_memory", "compile_failed", "failed")',
        'FINAL = ("ok", "out_of_memory", "compile_failed", "failed", "crashed")',
        "sweep/test_cells|test_sweep",
        "stored_result or answer",
    ),
    _one(
        "sweep",
        "of two candidates none goes on to the next rung",
        "left = tuple(ranked[: math.ceil(len(ranked) / KEPT)])",
        "left = tuple(ranked[: len(ranked) // KEPT])",
        "sweep/test_halving|sweep/test_autopilot|test_autopilot",
    ),
    _one(
        "sweep",
        "the winner always runs after plain eager, so drift of the machine falls on it",
        "order = [bare, last[0], last[0], bare] * ROUNDS",
        "order = [bare, last[0]] * 2 * ROUNDS",
        "sweep/test_autopilot|test_autopilot",
        also=(("([bare, winner, winner, bare] * ROUNDS)[: 2 * ROUNDS]", "[bare, winner] * ROUNDS"),),
    ),
    _one(
        "sweep",
        "the autopilot compares what the setting's eager model sees instead of its compiled one",
        'agreement.difference(reference.predictions["eager"], result.predictions["compiled"])',
        'agreement.difference(reference.predictions["eager"], result.predictions["eager"])',
        "sweep/test_autopilot|test_autopilot",
    ),
    _one(
        "sweep",
        "a node of the cluster is given a further cell although its GPU is timing one",
        "[node] * (node.slots - sum(other.id == node.id for other in taken))",
        "[node] * node.slots",
        "sweep/test_ray_cluster|test_cluster",
        also=(("range(node.slots - busy[node.id])", "range(node.slots)"),),
    ),
    # ---- ui
    _one(
        "ui",
        "a quotation mark in a name ends an HTML attribute",
        "return escape(str(value), quote=True)",
        "return escape(str(value), quote=False)",
        "ui/html/test_elements|test_page ui/tabs/test_history|test_history_tab",
        "cannot_become_html or stays_one_text",
    ),
    _one(
        "ui",
        "a page of another site may send requests where the browser names no origin",
        'if foreign or (not origins and sites - {"same-origin", "none"}):',
        "if foreign:",
        "ui/web/test_doors|test_doors",
    ),
    _one(
        "ui",
        "a visitor may have one run more in the queue than the limit says",
        "if mine >= limits.current().runs_a_visitor:",
        "if mine > limits.current().runs_a_visitor:",
        "test_hostile ui/tabs/test_run|ui/test_page|test_page",
        "one_run_at_a_time",
        also=(("if own >= limits.current().runs_a_visitor:", "if own > limits.current().runs_a_visitor:"),),
    ),
    _one(
        "ui",
        "on a Space every visitor can delete everybody's runs",
        "self._may_delete = not limits.on_space()",
        "self._may_delete = True",
        "ui/tabs/test_history|test_history_tab",
        "space",
    ),
    _one(
        "ui",
        "the list of runs tells a slow-down with the ratio of the speed-up",
        "html('answer_slower', ratio=fmt.ratio(1 / speedup.ratio))",
        "html('answer_slower', ratio=fmt.ratio(speedup.ratio))",
        "ui/tabs/test_history|test_history_tab",
        "listed_newest_first or slow",
    ),
    _one(
        "ui",
        "queries left in the hidden field are sent to a model that takes none",
        'asked["text"] = ""  #',
        "pass  #",
        "ui/tabs/test_form|ui/test_page|test_page",
        "queries_left",
    ),
    _one(
        "ui",
        "over MCP the answer is the whole result, with megabytes of pictures",
        "whole = not tools.asked_over_mcp(request)",
        "whole = True",
        "ui/test_mcp|test_mcp",
        "one_row",
        also=(("whole = not asked_over_mcp(request)", "whole = True"),),
    ),
    _one(
        "ui",
        "in the race the slower variant's bar is the longer one",
        "done * fastest / seconds if seconds else 0.0",
        "done * seconds / fastest if seconds else 0.0",
        "ui/html/test_progress|test_race",
    ),
    _one(
        "ui",
        "in stage mode the key D no longer changes between light and dark",
        "document.body.classList.toggle('dark');",
        "document.body.classList.toggle('night');",
        "browser/test_stage_in_chromium",
        "keys_choose",
    ),
    _one(
        "ui",
        "messages of the tab of stored runs are never seen",
        "#history-message:not(:has(p)), #compared:not(:has(section)) { display: none; }",
        "#history-message, #compared:not(:has(section)) { display: none; }",
        "browser/test_survival_in_chromium",
        "history_is_searched",
    ),
    _one(
        "ui",
        "Back goes on showing the run that was left",
        "if (runOf(url) !== shown) follow(url.search, 'back');",
        "if (runOf(url) === shown) follow(url.search, 'back');",
        "browser/test_survival_in_chromium",
        "address_opens or history_is_searched",
    ),
    _one(
        "ui",
        "on a Space other processes can read the secrets in the app's environment",
        "if limits.on_space():\n        hide_environment()",
        "if not limits.on_space():\n        hide_environment()",
        "test_faults",
        "cannot_read_the_apps",
        (
            (
                "if limits.on_space():\n        block_proc_access()",
                "if not limits.on_space():\n        block_proc_access()",
            ),
        ),
    ),
    # ---- cli
    _one(
        "cli",
        "a failed run ends with exit code 0",
        'return OK if result.status == "ok" else FAILED',
        "return OK",
        "cli/test_run|cli/test_main|test_command_line",
        "no_success or exit_code",
    ),
    _one(
        "cli",
        "a second Ctrl-C is ignored while a run does not end",
        "cancel.set()\n        signal.signal(signal.SIGINT, signal.default_int_handler)",
        "cancel.set()",
        "cli/test_run|cli/test_main|test_command_line",
        "ctrl",
    ),
    _one(
        "cli",
        "Enter alone deletes the runs that `history delete` asks about",
        'sys.stdin.readline().strip().lower() not in ("y", "yes"):',
        'sys.stdin.readline().strip().lower() in ("n", "no"):',
        "store/test_export|test_export",
        "delete",
    ),
    _one(
        "cli",
        "a sweep that ends before its first value replaces an earlier table by an empty one",
        "if any(cell.done for cell in cells):  #",
        "if cells:  #",
        "cli/test_sweep|sweep/test_grid|test_sweep",
        "table",
    ),
    _one(
        "cli",
        "a progress line as wide as the terminal wraps and is not rewritten",
        "{text[: columns - 1]}",
        "{text}",
        "cli/test_terminal|cli/test_main|test_command_line",
        "progress",
    ),
    _one(
        "cli",
        "the command that repeats the autopilot's winner forgets channels last",
        '["--channels-last"] if spec.channels_last else []',
        "[]",
        "cli/test_autopilot|sweep/test_autopilot|test_autopilot",
        "command or report",
        (
            (
                "parts += [OPTIONS[name].flags[0], *([] if value is True else [str(value)])]",
                "parts += [] if value is True else [OPTIONS[name].flags[0], str(value)]",
            ),
        ),
    ),
)
