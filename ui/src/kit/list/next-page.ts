interface Pages {
  hasNextPage: boolean
  isFetching: boolean
  isError: boolean
  fetchNextPage: () => unknown
}

/** What a list does while its end is in sight: it asks for the next page, one at a time. Undefined at the last page. */
export function nextPage({ hasNextPage, isFetching, isError, fetchNextPage }: Pages): (() => void) | undefined {
  if (!hasNextPage) return undefined
  return () => {
    if (!isFetching && !isError) fetchNextPage()
  }
}
