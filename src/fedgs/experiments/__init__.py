"""Studies: from settings to finished runs and their records.

The modules in the order in which a study passes through them:

* `grid`: files, `--set` and axes become one `Config` a run. `compare` is the entry from Python.
* `study`: the runs of a study, prepared, carried out and compared. The command line and `compare`
  both call it.
* `preparing`: loads the data and checks every configuration against it; each becomes a `prepared`
  run. `remarks` names settings without an effect.
* `runner`: reuses finished runs of the output folder and chooses where the others are carried out.
  `output` and `locks` keep other processes out of the folder. `earlier` recognises stored runs that
  are no longer the same run.
* `executor`: supervises a `crew`, which carries out shares of the runs: `this_process`, or
  `workers`. The latter start processes (`start_worker`, `worker`, `lifeline`), which receive the
  runs by `transfer` and report through a `channel`.
* `cluster_crew` and `cluster_worker` are a crew on the nodes of a cluster, which share no file with
  the study: `mirror` finds and writes what changes in the folders of its runs, and
  `transferred_files` and `transferred_sources` bring settings' files and plug-ins to the nodes.
* `cohorts` and `cohort_worker` carry out runs in this process whose cohorts the nodes train.
  `payload` and `member` are what both uses of a cluster have in common.
* `memories`: samplers' memories before round 0, computed once for all runs that share them.
* `sinks`: take the rounds of a run, into memory or into its folder.

Apart from these, `similarity` compares graphs for the paper's Table 3, and `paper` repeats the
paper's experiments.
"""
