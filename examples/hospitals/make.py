"""Write a table of patients: length of stay by age, severity, pressure and kind of admission.

python examples/hospitals/make.py [CSV]
"""

import csv
import sys
from pathlib import Path

import numpy as np

ADMISSIONS = {"planned": 0.0, "emergency": 1.5, "transfer": 3.0}  # days on top
COLUMNS = ("hospital", "age", "severity", "pressure", "admission", "stay")


def write(path: Path, hospitals: int = 20, patients: int = 2000, seed: int = 0) -> Path:
    """Hospitals differ in size, in the age and severity of their patients, and in their practice.

    A stay is 2 + 0.04 age + 1.2 severity + the admission's days + noise, times the hospital's
    factor, and at least half a day.
    """
    rng = np.random.default_rng(seed)
    share = rng.lognormal(0.0, 0.8, hospitals)
    sizes = np.maximum(12, (patients * share / share.sum()).astype(int))
    mix = rng.dirichlet(np.ones(len(ADMISSIONS)), hospitals)
    with path.open("w", newline="", encoding="utf-8") as file:
        table = csv.writer(file)
        table.writerow(COLUMNS)
        for k, size in enumerate(sizes.tolist()):
            age = rng.normal(50 + 20 * rng.uniform(-1, 1), 12, size).clip(18, 95)
            severity = rng.gamma(2.0, rng.uniform(0.5, 1.5), size)
            pressure = rng.normal(130, 15, size)
            admission = rng.choice(list(ADMISSIONS), size, p=mix[k])
            extra = np.array([ADMISSIONS[kind] for kind in admission])
            stay = 2 + 0.04 * age + 1.2 * severity + extra + rng.normal(0, 0.8, size)
            stay = np.maximum(0.5, stay * rng.uniform(0.8, 1.2))
            for row in zip(age, severity, pressure, admission, stay, strict=True):
                numbers = (f"{row[0]:.0f}", f"{row[1]:.2f}", f"{row[2]:.0f}")
                table.writerow([f"hospital {k + 1}", *numbers, row[3], f"{row[4]:.1f}"])
    return path


if __name__ == "__main__":
    print(write(Path(sys.argv[1] if len(sys.argv) > 1 else "hospitals.csv")))
