import { useLocation } from '@tanstack/react-router'

/** The values that the previous page passed for a new row. */
export const useDraft = <T extends object>() => (useLocation().state as { draft?: T }).draft
