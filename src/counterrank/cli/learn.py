"""counterrank learn: from a log to a better policy with a certificate."""

import os
from typing import Any

import click

from counterrank.cli.console import (
    json_option,
    printing_to_stdout,
    quiet_option,
    results_console,
    seed_option,
    showing_progress,
    write,
)
from counterrank.cli.reading import inputs, reading, reading_options

_EPILOG = """Examples:

\b
  counterrank learn log.parquet --logger plackett-luce --out policy.json --html learned.html
  counterrank learn log.parquet --out policy.json --grade assumed --segment device
  counterrank evaluate next-week.parquet --logger plackett-luce --policy new=policy.json --target new

Exit codes: 0 a certified policy was written; 1 nothing could be certified, no policy was written; 2 bad usage or input.
"""


@click.command("learn", epilog=_EPILOG)
@click.argument("log", type=click.Path())
@click.option(
    "--out",
    required=True,
    type=click.Path(dir_okay=False),
    help="Where the certified policy is written.",
)
@click.option(
    "--onnx",
    "onnx_path",
    type=click.Path(dir_okay=False),
    help="Write it as an ONNX graph too, for servers without Python (extra `onnx`).",
)
@click.option(
    "--model",
    type=click.Choice(["linear", "boosting"]),
    default="linear",
    show_default=True,
    help="linear: a click model, linear in features and context. boosting: LightGBM on top (extra "
    "`boosting`).",
)
@click.option(
    "--path",
    type=click.Choice(["best-of", "plackett-luce"]),
    default="best-of",
    show_default=True,
    help="best-of: the best of m rankings of today's policy. plackett-luce: today's scores plus the "
    "learned one; needs no sampler of today's policy, and many more rows.",
)
@click.option(
    "--grade",
    type=click.Choice(["free", "assumed"]),
    default="free",
    show_default=True,
    help="free: nothing is assumed about behaviour, at any number of rows. assumed: a t bound.",
)
@click.option("--level", default=0.95, show_default=True, help="Confidence of the certificate.")
@click.option(
    "--segment",
    "segments",
    multiple=True,
    metavar="COLUMN",
    help="Look at this column's groups too.",
)
@click.option(
    "--reward-range",
    metavar="LOW,HIGH",
    help="How small and large one reward can be, where it is not 0/1.",
)
@click.option(
    "--despite-audit", is_flag=True, help="Go on although the audit of the log has failed."
)
@click.option(
    "--resume",
    type=click.Path(file_okay=False),
    help="Keep draws in this folder, and go on from them after an interruption.",
)
@seed_option
@json_option
@click.option(
    "--html", "html_path", type=click.Path(dir_okay=False), help="Write one HTML page; - is stdout."
)
@quiet_option
@reading_options
def command(log: str, **options: Any) -> None:
    """Learn a policy that is better than today's with stated confidence, or say what is missing for
    one.

    LOG must say how today's policy draws: scores of all candidates with --logger, or whole
    distributions.
    """
    from counterrank.atomic import write_bytes
    from counterrank.errors import require
    from counterrank.learning import learn
    from counterrank.readers import check_outputs

    out, json_path, html_path = options["out"], options["json_path"], options["html_path"]
    if not out.endswith(".json"):
        raise click.UsageError(f"--out is a JSON file; '{out}' does not end in .json")
    piped = printing_to_stdout(json_path, html_path)
    read_from = inputs(log, options)
    read = reading(options)
    onnx_path = options["onnx_path"]
    outputs = {"--out": out, "--onnx": onnx_path, "--json": json_path, "--html": html_path}
    check_outputs(read_from, outputs)
    if onnx_path:
        require("onnx", extra="onnx")
    with showing_progress(enabled=not options["quiet"]):
        result = learn(
            log,
            model=options["model"],
            path=options["path"],
            grade=options["grade"],
            level=options["level"],
            seed=options["seed"],
            segments=options["segments"],
            reward_range=_range(options["reward_range"]),
            despite_audit=options["despite_audit"],
            resume=options["resume"],
            **read,
        )
    certified = result.certificate.certified
    if certified:
        graph = result.policy.to_onnx() if onnx_path else b""
        result.save(out)
        if onnx_path:
            write_bytes(onnx_path, graph)
    if json_path:
        write(json_path, result.to_json(policy=os.path.basename(out) if certified else None))
    if html_path:
        write(html_path, result.to_html())
    if not (options["quiet"] or piped):
        results_console().print(result)
    if not certified:
        click.echo(str(result.certificate), err=True)
        raise click.exceptions.Exit(1)


def _range(text: str | None) -> tuple[float, float] | None:
    if text is None:
        return None
    try:
        low, high = (float(part) for part in text.split(","))
    except ValueError:
        raise click.UsageError(f"--reward-range is two numbers, like 0,100; got '{text}'") from None
    return low, high
