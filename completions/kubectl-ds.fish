complete --keep-order --exclusive --command kubectl-ds --arguments "(KUBECTL_DS_COMPLETE=fish kubectl-ds -- (commandline --current-process --tokenize --cut-at-cursor) (commandline --current-token))"
