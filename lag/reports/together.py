"""Several questions to Spark at once: while one is planned, another one keeps the workers busy.

A session works on one job after the other where it is asked by one thread; planning a query takes
the driver as long as the workers need for a small log.
"""

from collections.abc import Callable
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import suppress
from typing import Any, Final

from pyspark.sql import SparkSession

AGAIN_SECONDS: Final = 0.2


def together(session: SparkSession, *asked: Callable[[], Any]) -> list[Any]:
    """What each of these returns, in their order. The first that fails ends all, and is raised."""
    with ThreadPoolExecutor(len(asked), thread_name_prefix="lag") as pool:
        underway = [pool.submit(each) for each in asked]
        try:
            done, _ = wait(underway, return_when=FIRST_EXCEPTION)
            for each in done:
                each.result()
            return [each.result() for each in underway]
        except BaseException:
            # Nobody waits for the others any more, whether it was one of them or Ctrl-C. Their jobs
            # are ended, also those that are still being planned and only begin thereafter.
            while wait(underway, timeout=AGAIN_SECONDS).not_done:
                with suppress(Exception):
                    session.sparkContext.cancelAllJobs()
            raise
