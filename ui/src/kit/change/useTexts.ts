import { useQuery } from '@tanstack/react-query'
import { loadTexts } from './kinds'

/** Whether the texts of these kinds are loaded. */
export function useTexts(kinds: readonly string[]): boolean {
  const wanted = [...new Set(kinds)].sort()
  const { isSuccess } = useQuery({
    queryKey: ['texts', ...wanted],
    queryFn: async () => {
      await loadTexts(wanted)
      return true
    },
    staleTime: Number.POSITIVE_INFINITY,
  })
  return isSuccess
}
