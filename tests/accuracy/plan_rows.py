#!/usr/bin/env python3
"""Plans published runs with `weft plan`, and compares each published plan with the best one found.

Usage: plan_rows.py --weft=FILE [--budget=SECONDS] [--sample=N | --all | --only=ID,ID] [--data=FILE] [--results=FILE]
                    [--set=FIELD=VALUE] [--format=text|markdown] [--check] [--json=FILE]

All times are simulated: the published plan and the best plan run under the run's own runtime, model and cluster.
docs/planned_rows.md has the results. Needs only Python.
"""
import argparse
import collections
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))
import row_inputs  # noqa: E402

HERE = os.path.dirname(os.path.realpath(__file__))
# A search ends when no plan can be faster by more than this share (--gap of weft plan).
WANTED_GAP = 0.01
# The simulated time of the published plan may differ this much from weft-accuracy's, which shortens long runs.
TOLERANCE = 0.01


def is_planned(row):
    """True if the row is a run of tier A with a time. Raises Skipped if the run cannot be expressed here."""
    row_inputs.family_of(row)
    if row["measured"].get("oom") or not row["derived"].get("iteration_s"):
        raise row_inputs.Skipped("it has no measured time")
    row_inputs.settings_of(row)
    row_inputs.model_of(row)
    row_inputs.runtime_of(row)
    return True


def planned_rows(rows, skipped):
    planned = []
    for row in rows:
        try:
            is_planned(row)
            planned.append(row)
        except row_inputs.Skipped as reason:
            if not str(reason).startswith("its family"):
                skipped[str(reason)] += 1
    return planned


def sample_of(rows, number):
    """Takes rows of all families in turn, spread evenly over each family's list."""
    families = collections.defaultdict(list)
    for row in rows:
        families[row["family"]].append(row)
    taken, share = [], 0
    while len(taken) < min(number, len(rows)):
        share += 1
        taken = []
        for family in families.values():
            count = min(share, len(family))
            taken += [family[i * len(family) // count] for i in range(count)]
    # Drops what is too much evenly, too.
    return [taken[i * len(taken) // number] for i in range(min(number, len(taken)))]


def predicted_times(path):
    """Returns weft-accuracy's predicted seconds by run, as text, from results.md."""
    with open(path, encoding="utf-8") as file:
        return dict(re.findall(r"^\| (\S+) \| (?:un)?fitted \| \S+ \| (\S+) \|", file.read(), re.M))


def cpu_seconds(pid):
    """Returns the processor time that a running process has taken; 0 if it has ended."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
            fields = file.read().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    except (OSError, IndexError):
        return 0


def run_json(command, budget=0):
    """Runs weft and returns its report. With a budget, ends it as Ctrl-C does after this many seconds of processor
    time, so that a busy machine does not shorten the search. Raises RuntimeError if weft fails."""
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        process = subprocess.Popen(command, stdout=out, stderr=err)
        used = 0
        while process.poll() is None and (budget == 0 or used < budget):
            time.sleep(0.05)
            used = cpu_seconds(process.pid)
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
        process.wait()
        out.seek(0), err.seek(0)
        if process.returncode != 0:
            lines = [line for line in err.read().split("\n") if line.strip()]
            raise RuntimeError(lines[-1] if lines else f"exit status {process.returncode}")
        return json.load(out)


def plan_row(row, arguments, folder):
    """Simulates the published plan, searches, and returns what was found. `failure` is empty if all went well."""
    result = {"id": row["id"], "devices": row["cluster"]["gpus"], "measured": row["derived"]["iteration_s"],
              "outside": row_inputs.outside_of_space(row), "failure": "", "command": ""}
    flags, offered, own, whole = row_inputs.write_inputs(row, arguments.weft, os.path.join(folder, row["id"]))
    result["published_plan"] = " ".join(own)
    simulate = [arguments.weft, "simulate", "--format=json"] + flags
    for setting in own:
        simulate += ["--set", setting]
    search = [arguments.weft, "plan", "--format=json", "--top=1", f"--gpus={row['cluster']['gpus']}",
              f"--gap={100 * WANTED_GAP:g}", f"--cache={folder}/cache", "--from=" + " ".join(whole)] + flags + offered
    for setting in arguments.set:
        search += ["--set", setting]
    result["command"] = " ".join(f"'{word}'" if " " in word else word for word in search)
    try:
        simulated = run_json(simulate)
        result.update(published=simulated["iteration_seconds"], fits=simulated["fits"])
        report = run_json(search, arguments.budget)
        best = report["plans"][0]
        result.update(best=best["iteration_seconds"], plan=best["settings"], gap=report["gap"], space=report["space"],
                      simulated=report["simulated"], open=report["open"], bound=report["lower_bound_seconds"],
                      same=report["changes"]["start"]["iteration_seconds"])
    except (RuntimeError, KeyError, IndexError) as error:
        result["failure"] = str(error)
    return result


def problems_of(result, predicted, tolerance=TOLERANCE):
    """Returns what contradicts weft's own claims."""
    problems = []
    if result["failure"]:
        return [result["failure"]]
    published, best = result["published"], result["best"]
    if predicted is not None and abs(published / float(predicted) - 1) > tolerance:
        problems.append(f"the published plan takes {published:.4g} s here and {predicted} s in results.md")
    # weft plan and weft simulate cost the published plan alike, unless it does not fit.
    if result["same"] and abs(result["same"] / published - 1) > 1e-9:
        problems.append(f"weft plan simulates the published plan as {result['same']:.6g} s, not {published:.6g} s")
    if result["fits"] and not result["outside"] and published < result["bound"] * (1 - 1e-9):
        problems.append(f"the published plan is faster than the lower bound {result['bound']:.6g} s")
    if result["fits"] and best > published * (1 + WANTED_GAP):
        problems.append(f"the plan found is {100 * (best / published - 1):.1f} % slower than the published one")
    return problems


def text_of(results, markdown):
    head = ["run", "devices", "published plan", "best found", "gap", "saves", "plan found"]
    lines = []
    for result in results:
        if result["failure"]:
            lines.append([result["id"], str(result["devices"]), "", "", "", "", result["failure"]])
            continue
        published, best = result["published"], result["best"]
        mark = "" if result["fits"] else " (does not fit)"
        lines.append([result["id"], str(result["devices"]), f"{published:.4g} s{mark}", f"{best:.4g} s",
                      f"{100 * result['gap']:.1f} %", f"{100 * (1 - best / published):.1f} %", result["plan"]])
    if markdown:
        rows = ["| " + " | ".join(head) + " |", "|---|--:|--:|--:|--:|--:|---|"]
        return "\n".join(rows + ["| " + " | ".join(line) + " |" for line in lines])
    widths = [max(len(line[i]) for line in [head] + lines) for i in range(len(head) - 1)]
    return "\n".join("  ".join([line[i].ljust(widths[i]) for i in range(len(widths))] + [line[-1]])
                     for line in [head] + lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--weft", required=True, help="the program weft")
    parser.add_argument("--budget", type=float, default=15,
                        help="seconds of processor time for each search; 0 = no limit [15]")
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--sample", type=int, default=30, help="number of runs, spread over all families [30]")
    which.add_argument("--all", action="store_true", help="all runs")
    which.add_argument("--only", help="ids of runs, separated by commas")
    parser.add_argument("--data", default=os.path.join(HERE, "published.json"), help="measured runs")
    parser.add_argument("--results", default=os.path.join(HERE, "results.md"), help="predictions of weft-accuracy")
    parser.add_argument("--set", action="append", default=[], help="a setting of every plan that is searched")
    parser.add_argument("--format", choices=["text", "markdown"], default="text")
    parser.add_argument("--check", action="store_true", help="exit with 1 if a result contradicts weft's claims")
    parser.add_argument("--json", help="also write all results to this file")
    arguments = parser.parse_args()
    arguments.weft = os.path.abspath(arguments.weft)

    with open(arguments.data, encoding="utf-8") as file:
        data = json.load(file)
    skipped = collections.Counter()
    rows = planned_rows(data, skipped)
    expressible = len(rows)
    if arguments.only:
        wanted = arguments.only.split(",")
        rows = sorted((row for row in rows if row["id"] in wanted), key=lambda row: wanted.index(row["id"]))
        if missing := [name for name in wanted if name not in {row["id"] for row in rows}]:
            sys.exit(f"plan_rows.py: --only: {', '.join(missing)}: not a run of published.json that can be planned")
    elif not arguments.all:
        rows = sample_of(rows, arguments.sample)
    predicted = predicted_times(arguments.results)

    results, failed = [], 0
    with tempfile.TemporaryDirectory() as folder:
        for row in rows:
            results.append(plan_row(row, arguments, folder))
            for problem in problems_of(results[-1], predicted.get(row["id"])):
                failed += 1
                print(f"{row['id']}: {problem}\n  {results[-1]['command']}", file=sys.stderr)
            if arguments.json:
                with open(arguments.json, "w", encoding="utf-8") as file:
                    json.dump(results, file, indent=1)
    print(text_of(results, arguments.format == "markdown"))
    done = [result for result in results if not result["failure"]]
    faster = sum(1 for result in done if result["best"] < result["published"])
    print(f"\n{len(results)} of {expressible} runs; {len(done)} were searched, in {faster} of them a faster plan was "
          f"found, {failed} problems")
    if arguments.all:
        for reason, count in skipped.most_common():
            print(f"  {count} runs are left out: {reason}")
    return 1 if arguments.check and failed else 0


if __name__ == "__main__":
    sys.exit(main())
