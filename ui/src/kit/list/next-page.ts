interface Pages {
  hasNextPage: boolean
  isFetching: boolean
  isError: boolean
  fetchNextPage: () => unknown
}

/** Loads the next page while the end of a list is visible, one at a time. Undefined on the last page. */
export function nextPage({ hasNextPage, isFetching, isError, fetchNextPage }: Pages): (() => void) | undefined {
  if (!hasNextPage) return undefined
  return () => {
    if (!isFetching && !isError) fetchNextPage()
  }
}
