import { configure } from '@testing-library/react'
import './i18n/i18n'

// Allows for a busy machine.
configure({ asyncUtilTimeout: 20_000 })
